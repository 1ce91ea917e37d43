// Makes the pages of the console live. Each page is whole without this script.

const SECOND = 1_000;
/** Longest wait for a page. A later one is treated as failed. */
const REPLY_MS = 15 * SECOND;
const PAUSED = 'examhall-console-paused';
const main = document.getElementById('main');
const pause = document.querySelector('button[data-pause]');

/** Writes the times of a page in the time zone of the browser. */
function localize(root) {
  const format = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: 'short', timeStyle: 'medium' });
  for (const element of root.querySelectorAll('time[datetime]')) {
    element.title = element.textContent ?? '';
    element.textContent = format.format(new Date(element.dateTime));
  }
}

/** Returns true while a person works in the page: types in it, has selected text, or has ticked a box. */
function isBusy() {
  const selection = document.getSelection();
  if (selection !== null && !selection.isCollapsed) return true;
  if (main.querySelector('dialog[open]') !== null) return true;
  for (const field of main.querySelectorAll('input, select, textarea')) {
    if (field === document.activeElement && field.type !== 'checkbox') return true;
    if (field.type === 'checkbox' ? field.checked !== field.defaultChecked : field.value !== valueAtFirst(field))
      return true;
  }
  return false;
}

function valueAtFirst(field) {
  if (field.tagName !== 'SELECT') return field.defaultValue;
  return [...field.options].find((option) => option.defaultSelected)?.value ?? field.options[0]?.value ?? '';
}

/** Returns an address of the focused element that survives an exchange of the content: its id, or its place among all of its kind. */
function focusAddress() {
  const focused = document.activeElement;
  if (focused === null || focused === main || !main.contains(focused)) return null;
  if (focused.id !== '') return { id: focused.id };
  const kind = focused.tagName;
  return { kind, place: [...main.getElementsByTagName(kind)].indexOf(focused), href: focused.getAttribute('href') };
}

function refocus(address) {
  if (address === null) return;
  const same = address.id === undefined ? [...main.getElementsByTagName(address.kind)] : [];
  const found =
    address.id === undefined
      ? (same.find((one) => address.href !== null && one.getAttribute('href') === address.href) ?? same[address.place])
      : document.getElementById(address.id);
  found?.focus({ preventScroll: true });
}

/** Exchanges the content, and restores focus, scrolled tables and opened details. */
function exchange(content) {
  const address = focusAddress();
  const scrolled = [...main.querySelectorAll('.scroll')].map((one) => one.scrollLeft);
  const opened = [...main.querySelectorAll('details')].map((one) => one.open);
  localize(content);
  main.replaceChildren(...content.childNodes);
  for (const [i, one] of [...main.querySelectorAll('.scroll')].entries()) one.scrollLeft = scrolled[i] ?? 0;
  for (const [i, one] of [...main.querySelectorAll('details')].entries()) one.open = opened[i] ?? one.open;
  refocus(address);
}

async function refresh() {
  if (document.hidden || isPaused() || isBusy()) return;
  try {
    const signal = AbortSignal.timeout(REPLY_MS);
    const reply = await fetch(location.href, { headers: { Accept: 'text/html' }, signal });
    if (reply.redirected) {
      location.reload();
      return;
    }
    const page = new DOMParser().parseFromString(await reply.text(), 'text/html');
    const content = page.getElementById('main');
    // A proxy in front answers with a page of its own.
    if (content === null) showStale();
    else if (!isBusy()) exchange(content);
  } catch {
    showStale();
  }
}

/** States that the page is old, until a refresh succeeds and exchanges the content. */
function showStale() {
  const readAt = main.querySelector('.read-at');
  if (readAt === null || main.querySelector('.stale') !== null) return;
  const warning = document.createElement('p');
  warning.className = 'alarm stale';
  warning.setAttribute('role', 'alert');
  warning.textContent = `${readAt.dataset.stale} ${readAt.querySelector('time')?.textContent ?? ''}`;
  main.prepend(warning);
}

function isPaused() {
  return sessionStorage.getItem(PAUSED) !== null;
}

function showPause() {
  pause.textContent = isPaused() ? pause.dataset.resume : pause.dataset.pause;
}

localize(document);
const seconds = Number(main?.dataset.refresh);
if (seconds > 0) {
  pause.hidden = false;
  showPause();
  pause.addEventListener('click', () => {
    if (isPaused()) sessionStorage.removeItem(PAUSED);
    else sessionStorage.setItem(PAUSED, '1');
    showPause();
  });
  setInterval(refresh, seconds * SECOND);
}
