import type { Example, Examples } from '#api/openapi-examples.ts';
import type { Api } from '#testing/doors/checked-api.ts';
import { asShown, differences, type Ids, isCut } from './compare.ts';
import type { ExampleRun } from './run-page.ts';

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
