// Brings the panels up to date when something happened; without it the page is as it was loaded.
const panels = document.getElementById("panels");
const lost = document.getElementById("lost");
const study = encodeURIComponent(panels.dataset.study);
let shown = panels.dataset.version;
let busy = false;

async function refresh(version) {
  if (busy || String(version) === shown) return;
  busy = true;
  try {
    const answer = await fetch(`/${study}?fragment`);
    if (answer.ok) {
      panels.innerHTML = await answer.text();
      shown = String(version);
    }
  } finally {
    busy = false;
  }
}

const source = new EventSource(`/${study}/live`);
source.onopen = () => { lost.hidden = true; };
source.onerror = () => { lost.hidden = false; };
source.onmessage = (event) => {
  refresh(JSON.parse(event.data)).catch(() => { lost.hidden = false; });
};
