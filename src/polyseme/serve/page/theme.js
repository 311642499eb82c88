// Runs before the first paint, so that a chosen theme does not flash. "auto" follows the system.
(function () {
  let theme = null;
  try { theme = localStorage.getItem("polyseme.theme"); } catch { /* storage can be forbidden */ }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
