// Asks for the rows again and again, while the page is seen, folds parts of the tree, and asks before a change.
setInterval(async () => {
  const answer = await fetch("here").catch(() => undefined);
  if (answer?.status === 403) location.replace("./"); // the session ended: nothing of it stays on any tab's screen
}, 3000);
const folded = new Set();
const fold = () => {
  for (const each of rows.querySelectorAll("[data-fold]")) each.setAttribute("aria-expanded", !folded.has(each.dataset.fold));
};
const rows = document.getElementById("rows");
if (rows) {
  setInterval(async () => {
    if (document.hidden || rows.contains(document.activeElement)) return;
    try {
      const answer = await fetch(rows.dataset.address);
      if (answer.ok) rows.innerHTML = await answer.text();
      fold();
    } catch {
      rows.querySelector(".health").textContent = "The console does not answer.";
    }
  }, 1000 * Number(rows.dataset.every));
  rows.addEventListener("click", (event) => {
    const name = event.target.dataset.fold;
    if (name === undefined) return;
    if (!folded.delete(name)) folded.add(name);
    fold();
    if (event.detail) event.target.blur(); // a mouse's click: the rows go on
  });
}
for (const button of document.querySelectorAll("[data-ask]")) {
  button.addEventListener("click", (event) => {
    if (!confirm(button.dataset.ask)) event.preventDefault();
  });
}
