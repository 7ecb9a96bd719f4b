(() => {
  "use strict";
  const root = document.documentElement;
  const dark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  const button = document.getElementById("theme");
  const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
  const wanted = location.hash.slice(1);
  if (wanted === "dark" || wanted === "light") root.dataset.theme = wanted;
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; name(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();

  // the browser's own tooltips are slow and absent on touch screens: the same text, at once
  const tip = document.getElementById("tip");
  const hide = () => { tip.hidden = true; };
  const show = (event) => {
    const mark = event.target.closest && event.target.closest(".event");
    const title = mark && mark.querySelector("title");
    if (title) { mark.dataset.tip = title.textContent; title.remove(); }
    if (!mark || !mark.dataset.tip) return hide();
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const at = mark.getBoundingClientRect(), box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(12, at.left + at.width / 2 - box.width / 2), innerWidth - box.width - 12);
    const above = at.top - box.height - 6;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 8 ? above : at.bottom + 6}px`;
  };
  document.addEventListener("pointerover", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", hide, { passive: true, capture: true });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  // a link into something that is folded away opens it; paper shows all
  const reveal = () => {
    const target = wanted !== "dark" && location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    const folded = target && target.closest("details");
    if (folded) { folded.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", reveal);
  reveal();
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.more:not([open])")];
    for (const part of opened) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of opened) part.open = false; });
})();
