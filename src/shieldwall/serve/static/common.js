// What the parts of the page share.

export const $ = (id) => document.getElementById(id);
export const known = JSON.parse($("known").textContent);

const grouped = new Intl.NumberFormat("en");
export const number = (value) => grouped.format(value);

// Never more than is certified.
export const downTo3 = (radius) => (Math.floor(1000 * radius) / 1000).toFixed(3);

export function complain(message) {
  $("problem").hidden = !message;
  $("problem").textContent = message || "";
}
