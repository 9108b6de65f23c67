// Asks for the parts of a page again and again, while it is seen, folds the tree, and asks before a change.
setInterval(async () => {
  const answer = await fetch("here").catch(() => undefined);
  if (answer?.status === 403) location.replace("./"); // the session ended: nothing of it stays on any tab's screen
}, 3000);
const folded = new Set();
const rows = document.getElementById("rows");
const fold = () => {
  for (const each of rows.querySelectorAll("[data-fold]")) each.setAttribute("aria-expanded", !folded.has(each.dataset.fold));
};
for (const part of document.querySelectorAll("[data-address]")) {
  setInterval(async () => {
    const used = part.contains(document.activeElement) || part.querySelector(".pointed, details[open]");
    if (document.hidden || used) return;
    try {
      const answer = await fetch(part.dataset.address);
      if (!answer.ok) return;
      part.innerHTML = await answer.text();
      if (part === rows) fold();
      part.dispatchEvent(new Event("replaced", { bubbles: true }));
    } catch {
      const line = document.querySelector(".health") ?? document.getElementById("counted");
      line.textContent = "The console does not answer.";
    }
  }, 1000 * Number(part.dataset.every));
}
rows?.addEventListener("click", (event) => {
  const name = event.target.dataset.fold;
  if (name === undefined) return;
  if (!folded.delete(name)) folded.add(name);
  fold();
  if (event.detail) event.target.blur(); // a mouse's click: the rows go on
});
for (const button of document.querySelectorAll("[data-ask]")) {
  button.addEventListener("click", (event) => {
    if (!confirm(button.dataset.ask)) event.preventDefault();
  });
}
