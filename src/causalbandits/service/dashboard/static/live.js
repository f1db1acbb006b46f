// Brings the panels up to date when something happened; without it the page is as it was loaded.
const panels = document.getElementById("panels");
const lost = document.getElementById("lost");
const study = encodeURIComponent(panels.dataset.study);
let shown = "";
let wanted = "";
let busy = false;
const live = document.getElementById("live");
live.closest("p").hidden = false;

// What is new is written into what is there, node by node: all that stays keeps its scroll, focus and selection.
const name = (node) => node.id || node.dataset?.part || "";
const alike = (node, fresh) => node?.nodeName === fresh.nodeName && name(node) === name(fresh);

function update(node, fresh) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.data !== fresh.data) node.data = fresh.data;
    return;
  }
  const isOpened = (attribute) => node.nodeName === "DETAILS" && attribute === "open"; // by the reader
  for (const { name: attribute } of [...node.attributes]) {
    if (!fresh.hasAttribute(attribute) && !isOpened(attribute)) node.removeAttribute(attribute);
  }
  for (const { name: attribute, value } of fresh.attributes) {
    if (node.getAttribute(attribute) !== value) node.setAttribute(attribute, value);
  }
  updateChildren(node, fresh);
}

function updateChildren(parent, fresh) {
  let place = parent.firstChild;
  const drop = () => { const next = place.nextSibling; place.remove(); place = next; };
  for (const node of [...fresh.childNodes]) {
    if (name(node)) { // parts that are there no more stand before it
      let match = place;
      while (match && !alike(match, node)) match = match.nextSibling;
      while (match && place !== match) drop();
    }
    if (place && alike(place, node)) {
      const next = place.nextSibling;
      update(place, node);
      place = next;
    } else {
      parent.insertBefore(node, place);
    }
  }
  while (place) drop();
}

async function refresh() {
  if (busy || !live.checked || wanted === shown) return;
  busy = true;
  const version = wanted;
  try {
    const answer = await fetch(`/${study}?fragment`, { redirect: "manual" });
    if (answer.type === "opaqueredirect") { // the key counts no more: to the login, as a whole page
      location.reload();
      return;
    }
    if (!answer.ok) throw new Error(answer.statusText);
    const template = document.createElement("template");
    template.innerHTML = await answer.text();
    updateChildren(panels, template.content);
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
    wanted ||= "0";
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  };
}

listen();
setInterval(refresh, 1000);
