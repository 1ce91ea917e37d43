import { setTimeout as delay } from 'node:timers/promises';
import { createParser } from 'eventsource-parser';
import type { Api } from '#testing/doors/checked-api.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';
import { differences, type Ids } from './compare.ts';
import { type Outgoing, type Page, parsed, type SentRequest } from './page.ts';
import { type ExampleRun, openPageShell, openRecordingProxy } from './page-shell.ts';

/** The cluster that a page runs against, with its OpenAPI document and the calls that its neighbours received. */
export interface PageCluster {
  readonly url: string;
  readonly api: Api;
  received(): readonly SentRequest[];
}

const SENT_WITHIN_MS = 20_000;

/**
 * Runs the steps of a page in order and returns how the replies differ from those that it shows, one line each. `onRun` receives each
 * example, with the ids that the run has shown so far.
 * @throws Error if a command fails
 */
export async function pageDifferences(
  t: Teardown,
  page: Page,
  cluster: PageCluster,
  onRun: (run: ExampleRun, ids: Ids) => void,
): Promise<string[]> {
  const ids: Ids = new Map();
  const found: string[] = [];
  const proxy = await openRecordingProxy(t, cluster.url);
  const runBlock = openPageShell(t, proxy.url);
  for (const step of page.steps) {
    const name = `${page.file}:${step.line}`;
    const add = (differences: readonly string[]) => found.push(...differences.map((what) => `${name}: ${what}`));
    if (step.kind === 'outgoing') {
      add(await outgoingDifferences(step, cluster, ids));
      continue;
    }
    const run = { step, output: await runBlock(step.script, name), calls: proxy.take() };
    add(exampleDifferences(run, cluster.api, ids));
    onRun(run, ids);
  }
  return found;
}

/** Returns how one example differs from the page or from the OpenAPI document, one line each. */
export function exampleDifferences({ step: { reply }, calls, output }: ExampleRun, api: Api, ids: Ids): string[] {
  const last = calls.at(-1);
  const found = calls.flatMap((call) => {
    const status = call === last ? reply?.status : null;
    // A call whose status the page does not show has to succeed.
    const isWanted = typeof status === 'number' ? call.status === status : call.status >= 200 && call.status < 300;
    if (!isWanted) return [`${call.method} ${call.target} answered ${call.status} ${call.text.slice(0, 600)}`];
    return api.faultOf(call.method, call.target, call) ?? [];
  });
  if (reply === null) return found;
  if (reply.kind === 'json' && last === undefined) return ['the block calls nothing'];
  if (reply.kind === 'text' && last?.headers['content-type']?.startsWith('text/event-stream'))
    return [...found, ...streamDifferences(reply.text, last.text, ids)];
  const [shown, real] = reply.kind === 'json' ? [reply.body, last?.json] : [reply.text.trim(), output.trim()];
  return [...found, ...differences(shown, real, ids).map(({ what }) => what)];
}

/**
 * Returns the events of a page that a stream does not hold in this order. The stream may hold further events between them, because their
 * number depends on time.
 */
export function streamDifferences(shown: string, real: string, ids: Ids): string[] {
  let left = eventsIn(real);
  return eventsIn(shown).flatMap((event) => {
    const at = left.findIndex((one) => differences(event, one, ids).length === 0);
    if (at === -1) return [`no event ${JSON.stringify(event)} in its place among ${JSON.stringify(left)}`];
    left = left.slice(at + 1);
    return [];
  });
}

/** The value of an `id` means nothing. */
function eventsIn(text: string) {
  const events: { event: string | undefined; hasId: boolean; data: unknown }[] = [];
  const parser = createParser({
    onEvent: ({ event, id, data }) => events.push({ event, hasId: id !== undefined, data: parsed(data) ?? data }),
  });
  // An event ends with an empty line, which a page leaves out at the end of a block.
  parser.feed(`${text}\n\n`);
  return events;
}

/** Waits for the request that the page shows. Returns how the most similar one on its path differs. */
export async function outgoingDifferences(
  { request: { method, path, headers, body } }: Outgoing,
  cluster: Pick<PageCluster, 'received'>,
  ids: Ids,
  withinMs = SENT_WITHIN_MS,
): Promise<string[]> {
  const giveUpAt = performance.now() + withinMs;
  for (;;) {
    const onPath = cluster.received().filter((one) => one.method === method && one.path === path);
    const found = onPath.map((one) => {
      const named = Object.keys(headers).map((name) => [name, one.headers[name]]);
      return differences({ headers, body }, { headers: Object.fromEntries(named), body: one.body }, ids);
    });
    const [closest] = found.sort((a, b) => a.length - b.length);
    if (closest?.length === 0) return [];
    if (performance.now() < giveUpAt) await delay(50);
    else return closest?.map(({ what }) => what) ?? [`no neighbour received ${method} ${path}`];
  }
}
