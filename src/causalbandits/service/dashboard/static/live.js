// Brings the panels up to date when something happened; without it the page is as it was loaded.
const panels = document.getElementById("panels");
const lost = document.getElementById("lost");
const study = encodeURIComponent(panels.dataset.study);
let shown = "";
let wanted = "";
let busy = false;

// Somebody who chooses what to look up is not to be interrupted.
const choosing = () => panels.contains(document.activeElement) && document.activeElement.tagName === "SELECT";

async function refresh() {
  if (busy || wanted === shown || choosing()) return;
  busy = true;
  const version = wanted;
  try {
    const answer = await fetch(`/${study}?fragment`);
    if (!answer.ok) throw new Error(answer.statusText);
    const chosen = [...panels.querySelectorAll("select")].map((one) => one.value);
    panels.innerHTML = await answer.text();
    panels.querySelectorAll("select").forEach((one, k) => { one.value = chosen[k] ?? ""; });
    shown = version;
    lost.hidden = true;
  } catch {
    lost.hidden = false;
  } finally {
    busy = false;
  }
}

function listen() {
  const source = new EventSource(`/${study}/live`);
  source.onopen = () => { lost.hidden = true; };
  source.onmessage = (event) => { wanted = event.data; };
  source.onerror = () => {
    lost.hidden = false;
    shown = "";  // whatever happened meanwhile
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  };
}

listen();
setInterval(refresh, 1000);
