import type { Example, Examples } from '#api/openapi-examples.ts';
import { callHttp } from '#testing/clients/http-call.ts';
import { differences, recorded, sameText, wholeMembers, withLeftOut, withoutMarks } from './compare.ts';
import { Identities } from './forms.ts';
import type { RecordedCall } from './recording-proxy.ts';
import { type StepRun, stepDifferences } from './run-page.ts';

// The examples of the OpenAPI document: calls that succeeded while the pages of the reference ran.

/** An operation of the document. */
interface Operation {
  id: string;
  /** Method and path, such as `GET /v1/attempts/{attemptId}`. */
  route: string;
  takesBody: boolean;
}

export interface Operations {
  readonly routes: readonly string[];
  /** Returns the operation of a call: the one with the same path, otherwise one whose parameters fit. */
  find(call: Pick<RecordedCall, 'method' | 'target'>): Operation | undefined;
}

/** A call that succeeded, as an example: with the ids, times and tokens of its page. */
export interface Success {
  readonly operation: string;
  readonly status: string;
  /** The reply as the page shows it; undefined if it shows none. */
  readonly shown: unknown;
  /** Body of the request; undefined if the operation takes none. */
  readonly request: unknown;
  readonly reply: unknown;
}

type Document = { paths: Record<string, Record<string, { operationId: string; requestBody?: object }>> };

/** Returns the operations of the document that a front door serves. */
export async function operationsAt(origin: string): Promise<Operations> {
  return operationsIn((await callHttp(origin, 'GET', '/openapi.json')).json as Document);
}

export function operationsIn({ paths }: Document): Operations {
  const all = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, { operationId, requestBody }]) => ({
      id: operationId,
      route: `${method.toUpperCase()} ${path}`,
      takesBody: requestBody !== undefined,
      pattern: new RegExp(`^${method.toUpperCase()} ${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`),
    })),
  );
  return {
    routes: all.map(({ route }) => route),
    find({ method, target }) {
      const call = `${method} ${target.split('?')[0]}`;
      return all.find(({ route }) => route === call) ?? all.find(({ pattern }) => pattern.test(call));
    },
  };
}

/** Returns the calls of a page that succeeded and whose reply is an example. */
export function successesOf(runs: readonly StepRun[], operations: Operations): Success[] {
  const identities = new Identities();
  return runs.flatMap((run) => {
    // Pairs the ids of the page with those of the run.
    stepDifferences(run, identities);
    if ('received' in run) return [];
    const { calls, step } = run;
    return calls.flatMap((call) => {
      const operation = operations.find(call);
      if (operation === undefined || call.status < 200 || call.status > 299) return [];
      const block = call === calls.at(-1) ? step.reply : null;
      const shown = block?.kind === 'json' ? JSON.parse(block.value) : block?.value.trim();
      const reply = replyOf(call, shown, identities);
      if (reply === undefined) return [];
      const request = operation.takesBody ? recorded(undefined, JSON.parse(call.sent || '{}'), identities) : undefined;
      return [{ operation: operation.id, status: `${call.status}`, shown, request, reply }];
    });
  });
}

/** Returns the reply as an example, or undefined for a text that no page shows. */
function replyOf({ type, body }: RecordedCall, shown: unknown, identities: Identities): unknown {
  if (type !== 'application/json') return typeof shown === 'string' ? shown : undefined;
  const real = JSON.parse(body);
  // The OpenAPI document is a reply without envelope; its example stays cut.
  if (real.success === undefined) return shown;
  return withoutMarks(recorded(wholeMembers(shown), real, identities));
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
  const replies = chosen.map(({ status, shown, reply }) => {
    const earlier = before?.replies[status];
    return [status, steady(earlier, withLeftOut(shown, earlier, reply))] as const;
  });
  return {
    ...(request !== undefined && { request: steady(before?.request, request) }),
    replies: Object.fromEntries(replies),
  };
}

/** Returns the first success that a page shows, otherwise the first one. */
function shownFirst(successes: readonly Success[]): Success | undefined {
  return successes.find(({ shown }) => shown !== undefined) ?? successes[0];
}

function steady(before: unknown, now: unknown): unknown {
  if (typeof before === 'string' && typeof now === 'string') {
    return sameText(before, now, new Identities()) ? before : now;
  }
  return before !== undefined && differences(before, now, new Identities()).length === 0 ? before : now;
}
