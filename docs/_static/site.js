// What a keyboard and a screen reader need beside the theme.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector("aside.sidebar-drawer")?.setAttribute("aria-label", "Pages");
  document.querySelector("aside.toc-drawer")?.setAttribute("aria-label", "On this page");
  const results = document.getElementById("search-results");
  if (results && !document.querySelector("article h1")) {
    const heading = document.createElement("h1");
    heading.textContent = "Search";
    results.before(heading);
  }
  const reach = () => {
    for (const each of document.querySelectorAll("pre, .table-wrapper")) {
      if (each.scrollWidth > each.clientWidth) each.tabIndex = 0; // so that arrow keys move it
      else each.removeAttribute("tabindex");
    }
  };
  addEventListener("resize", reach);
  reach();
});
