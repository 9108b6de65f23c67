// Asks for the rows again and again, while the page is seen; and asks before a change.
const rows = document.getElementById("rows");
if (rows) {
  setInterval(async () => {
    if (document.hidden || rows.contains(document.activeElement)) return;
    try {
      const answer = await fetch(rows.dataset.address);
      if (answer.ok) rows.innerHTML = await answer.text();
    } catch {
      rows.querySelector(".health").textContent = "The console does not answer.";
    }
  }, 1000 * Number(rows.dataset.every));
}
for (const button of document.querySelectorAll("[data-ask]")) {
  button.addEventListener("click", (event) => {
    if (!confirm(button.dataset.ask)) event.preventDefault();
  });
}
