import type { Example, Examples } from '#api/openapi-examples.ts';
import type { Api } from '#testing/doors/checked-api.ts';
import type { ExampleRun } from './page-shell.ts';

/** How a place in a reply differs from the page. `at` is its JSON pointer. */
interface Difference {
  readonly at: string;
  readonly what: string;
}

/** The ids of a page and those of a run that they stand for, one to one. */
export type Ids = Map<string, string>;

const ID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|ACC-[0-9A-HJKMNP-TV-Z]{8}/g;
/** A page may cut a token with `…`, as in `eyJhbGciOi…`. */
const TOKEN = /eyJ[\w-]*(?:…|\.[\w-]+\.[\w-]+)/g;
/** Parts of a text that differ in each run. */
const FORMS: Readonly<Record<string, RegExp>> = {
  token: TOKEN,
  id: ID,
  time: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g,
  second: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g,
  digest: /[0-9a-f]{32,}/g,
  secret: /whsec_[\w+/]+=*/g,
  signature: /v1,[\w+/]+=*/g,
  unix: /\b1[789]\d{8}\b/g,
  origin: /http:\/\/127\.0\.0\.1:\d+/g,
};
/** Numbers that depend on the clock or the machine, by the name of their member. */
const VOLATILE_NUMBERS = ['uptimeSeconds', 'latencyMs', 'durationSeconds', 'remainingSeconds'];
/** Last item of a list that a page shortens, or value of the member "…" of an object. */
const MORE = /^… (\d+) more$/;

/**
 * Returns how the real value differs from the one that a page shows. Ids, times and other volatile values count as equal if they have the
 * same form. The order of members does not count. If nothing differs, `ids` learns the ids of both.
 */
export function differences(shown: unknown, real: unknown, ids: Ids): Difference[] {
  const learnt = new Map(ids);
  const found = compare(shown, real, learnt, '');
  if (found.length === 0) for (const [one, other] of learnt) ids.set(one, other);
  return found;
}

function compare(shown: unknown, real: unknown, ids: Ids, at: string): Difference[] {
  const other = { at, what: `${at || 'the body'} is ${brief(real)} instead of ${brief(shown)}` };
  if (!isParted(shown) || !isParted(real)) return isSame(shown, real, ids, at) ? [] : [other];
  if (Array.isArray(shown) !== Array.isArray(real)) return [other];

  const { kept, rest } = partsOf(shown);
  const found = Object.entries(kept).flatMap(([name, part]) => {
    const place = `${at}/${name}`;
    if (Object.hasOwn(real, name)) return compare(part, real[name], ids, place);
    return [{ at: place, what: `${place} is missing` }];
  });
  const further = Object.keys(real).filter((name) => !Object.hasOwn(kept, name));
  if (rest > 0 && further.length === rest) return found;
  if (rest > 0) return [...found, { at, what: `${at || 'the body'} has ${further.length} more instead of ${rest}` }];
  const unshown = further.map((name) => `${at}/${name}`);
  return [...found, ...unshown.map((place) => ({ at: place, what: `${place} is not shown` }))];
}

function isSame(shown: unknown, real: unknown, ids: Ids, at: string): boolean {
  if (typeof shown === 'string' && typeof real === 'string') {
    if (outlineOf(shown) !== outlineOf(real)) return false;
    const others = real.match(ID) ?? [];
    return (shown.match(ID) ?? []).every((id, index) => isPair(id, others[index] ?? '', ids));
  }
  const areNumbers = typeof shown === 'number' && typeof real === 'number';
  return shown === real || (areNumbers && VOLATILE_NUMBERS.some((name) => at.endsWith(`/${name}`)));
}

function outlineOf(text: string): string {
  return Object.entries(FORMS).reduce((left, [name, form]) => left.replaceAll(form, `<${name}>`), text);
}

/** Returns whether an id of the page may stand for one of the run; from then on it does. */
function isPair(shown: string, real: string, ids: Ids): boolean {
  if (!ids.has(shown) && ![...ids.values()].includes(real)) ids.set(shown, real);
  return ids.get(shown) === real;
}

/** Returns a real value with the ids of the page, with short tokens, and with lists as short as the page shows them. */
export function asShown(shown: unknown, real: unknown, ids: Ids): unknown {
  const shownOf = new Map([...ids].map(([one, other]) => [other, one]));
  const text = JSON.stringify(shortened(shown, real)).replaceAll(ID, (id) => shownOf.get(id) ?? id);
  return JSON.parse(text.replaceAll(TOKEN, (token) => `${token.slice(0, 20)}…`));
}

function shortened(shown: unknown, real: unknown): unknown {
  if (!isParted(real)) return real;
  const { kept = {}, rest = 0 } = isParted(shown) ? partsOf(shown) : {};
  const names = Object.keys(real).slice(0, (Array.isArray(real) && rest > 0 && Object.keys(kept).length) || undefined);
  const parts = names.map((name) => [name, shortened(kept[name], real[name])] as const);
  return Array.isArray(real) ? parts.map(([, part]) => part) : Object.fromEntries(parts);
}

/** Returns whether a JSON pointer leads into what a page cuts from an object or a list. */
export function isCut(shown: unknown, at: string): boolean {
  let value = shown;
  for (const name of at.split('/').slice(1)) {
    if (!isParted(value)) return false;
    const { kept, rest } = partsOf(value);
    if (!Object.hasOwn(kept, name)) return rest > 0;
    value = kept[name];
  }
  return false;
}

type Parts = Readonly<Record<string, unknown>>;

/** Returns the members of an object or the items of a list, and how many more it has than the page shows. */
function partsOf(shown: Parts): { kept: Parts; rest: number } {
  const { '…': mark, ...kept } = Array.isArray(shown) ? { ...shown, '…': shown.at(-1) } : shown;
  const rest = typeof mark === 'string' ? Number(MORE.exec(mark)?.[1] ?? 0) : 0;
  return { kept: Array.isArray(shown) && rest > 0 ? { ...shown.slice(0, -1) } : kept, rest };
}

function isParted(value: unknown): value is Parts {
  return typeof value === 'object' && value !== null;
}

function brief(value: unknown): string {
  return (JSON.stringify(value) ?? 'missing').slice(0, 300);
}

// The examples of the OpenAPI document: calls that succeeded while the pages of the reference ran.

/** A call that succeeded, as an example: with the ids of its page. */
export interface Success {
  readonly operation: string;
  readonly status: string;
  /** The reply as the page shows it; undefined if it shows none. */
  readonly shown: unknown;
  /** Body of the request; undefined if the operation takes none. */
  readonly request: unknown;
  readonly reply: unknown;
}

/** Returns the calls of an example that succeeded and whose reply is JSON or shown. */
export function successesOf({ calls, step }: ExampleRun, api: Api, ids: Ids): Success[] {
  return calls.flatMap((call) => {
    const operation = api.find(call.method, call.target);
    if (operation === undefined || call.status < 200 || call.status > 299) return [];
    const block = call === calls.at(-1) ? step.reply : null;
    const shown = block?.kind === 'json' ? block.body : block?.text.trim();
    // The OpenAPI document is a reply without envelope; its example stays cut, as a stream does.
    const reply = call.json?.success === undefined ? shown : asShown(shown, call.json, ids);
    if (reply === undefined) return [];
    const request = operation.requestBody && asShown(undefined, JSON.parse(call.sent || '{}'), ids);
    return [{ operation: operation.operationId, status: `${call.status}`, shown, request, reply }];
  });
}

/**
 * Returns the examples by operation: of each status the first reply that a page shows, otherwise the first one. The example of `before`
 * stays if only ids, times and other volatile values differ, or what the page leaves out.
 */
export function examplesOf(successes: readonly Success[], before: Examples): Examples {
  const byOperation = Map.groupBy(successes, ({ operation }) => operation);
  const sorted = [...byOperation].sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(sorted.map(([operation, all]) => [operation, exampleOf(all, before[operation])]));
}

function exampleOf(all: readonly Success[], before: Example | undefined): Example {
  const byStatus = [...Map.groupBy(all, ({ status }) => status)].sort(([a], [b]) => (a < b ? -1 : 1));
  const chosen = byStatus.flatMap(([, same]) => shownFirst(same) ?? []);
  const request = shownFirst(chosen.filter((success) => success.request !== undefined))?.request;
  const replies = chosen.map(({ status, shown, reply }) => [status, steady(before?.replies[status], reply, shown)]);
  return {
    ...(request !== undefined && { request: steady(before?.request, request) }),
    replies: Object.fromEntries(replies),
  };
}

/** Returns the first success that a page shows, otherwise the first one. */
function shownFirst(successes: readonly Success[]): Success | undefined {
  return successes.find(({ shown }) => shown !== undefined) ?? successes[0];
}

/** Returns `before` if only volatile values differ, or parts that the page cuts, because they may depend on the run. */
function steady(before: unknown, now: unknown, shown?: unknown): unknown {
  const found = differences(before, now, new Map());
  return found.every(({ at }) => isCut(shown, at)) ? before : now;
}
