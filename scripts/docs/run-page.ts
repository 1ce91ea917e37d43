import { setTimeout as delay } from 'node:timers/promises';
import { differences, sameText } from './compare.ts';
import { streamDifferences } from './event-text.ts';
import { Identities } from './forms.ts';
import type { Example, Outgoing, Page, Step } from './page.ts';
import { openPageShell } from './page-shell.ts';
import { openRecordingProxy, type RecordedCall } from './recording-proxy.ts';
import type { SentRequest } from './sent-request.ts';

/** The cluster that a page runs against, with the calls that its neighbours received. */
export interface PageCluster {
  readonly url: string;
  received(): readonly SentRequest[];
}

/** An example that ran. */
export interface ExampleRun {
  readonly step: Example;
  readonly calls: readonly RecordedCall[];
  readonly output: string;
}

/** A request that the page shows, with those that a neighbour received on that path. */
export interface OutgoingRun {
  readonly step: Outgoing;
  readonly received: readonly SentRequest[];
}

export type StepRun = ExampleRun | OutgoingRun;

/** Longest wait for a request that the product sends in the background. */
const SENT_WITHIN_MS = 20_000;

/** Runs the steps of a page in order. @throws Error if a command fails or an outgoing request never comes */
export async function* runPage(page: Page, cluster: PageCluster): AsyncGenerator<StepRun> {
  const proxy = await openRecordingProxy(cluster.url);
  const shell = openPageShell(proxy.url);
  try {
    for (const step of page.steps) {
      if (step.kind === 'example') {
        const output = await shell.run(step.script, `${page.file}:${step.line}`);
        yield { step, calls: proxy.take(), output };
      } else {
        yield { step, received: await receivedOn(step, cluster) };
      }
    }
  } finally {
    await shell.close();
    await proxy.close();
  }
}

/** Runs a page and returns how the replies differ from those that it shows, one line each. `onRun` receives each step. */
export async function pageDifferences(page: Page, cluster: PageCluster, onRun?: (run: StepRun) => void) {
  const identities = new Identities();
  const found: string[] = [];
  for await (const run of runPage(page, cluster)) {
    onRun?.(run);
    found.push(...stepDifferences(run, identities).map((what) => `${page.file}:${lineOf(run.step)}: ${what}`));
  }
  return found;
}

/** Returns how one step differs from the page, one line each. */
export function stepDifferences(run: StepRun, identities: Identities): string[] {
  if ('received' in run) return closest(run, identities).found;
  const { step, calls, output } = run;
  const { reply } = step;
  const hidden = reply === null ? calls : calls.slice(0, -1);
  const failed = hidden.filter(({ status }) => !isWanted(status)).map(describe);
  if (reply === null) return failed;
  const last = calls.at(-1);
  if (last === undefined && reply.kind === 'json') return [...failed, 'the block calls nothing'];
  if (last !== undefined && !isWanted(last.status, reply.status?.code)) failed.push(describe(last));
  return [...failed, ...replyDifferences(reply, last, output, identities)];
}

/** Returns the received request that is most like the one that the page shows, and how they differ. */
export function closest({ step, received }: OutgoingRun, identities: Identities) {
  const all = received.map((real) => ({
    real,
    count: requestDifferences(step.request, real, identities.copy()).length,
  }));
  const [best] = all.sort((a, b) => a.count - b.count);
  if (best === undefined) throw new Error(`no neighbour received ${step.request.method} ${step.request.path}`);
  return { real: best.real, found: requestDifferences(step.request, best.real, identities) };
}

function replyDifferences(
  reply: NonNullable<Example['reply']>,
  last: RecordedCall | undefined,
  output: string,
  identities: Identities,
): string[] {
  if (reply.kind === 'json') return differences(JSON.parse(reply.value), JSON.parse(last?.body || 'null'), identities);
  if (last?.type === 'text/event-stream') return streamDifferences(reply.value, last.body, identities);
  const [shown, real] = [reply.value.trim(), output.trim()];
  return sameText(shown, real, identities) ? [] : [`the command prints\n${real}\ninstead of\n${shown}`];
}

function requestDifferences(shown: SentRequest, real: SentRequest, identities: Identities): string[] {
  const headers = Object.entries(shown.headers)
    .filter(([name, value]) => !sameText(value, real.headers[name] ?? '', identities))
    .map(([name, value]) => `header ${name} is ${real.headers[name] ?? 'missing'} instead of ${value}`);
  return [...headers, ...differences(shown.body, real.body, identities)];
}

/** A call whose status the page does not show has to succeed. */
function isWanted(status: number, shown?: number): boolean {
  return shown === undefined ? status >= 200 && status < 300 : status === shown;
}

/** Waits for a request like the one that the page shows, and returns all on its path. */
async function receivedOn({ request }: Outgoing, cluster: PageCluster): Promise<SentRequest[]> {
  const matching = () =>
    cluster.received().filter(({ method, path }) => method === request.method && path === request.path);
  const isSame = (real: SentRequest) => requestDifferences(request, real, new Identities()).length === 0;
  const giveUpAt = performance.now() + SENT_WITHIN_MS;
  while (!matching().some(isSame) && performance.now() < giveUpAt) await delay(50);
  return matching();
}

function lineOf(step: Step): number {
  return step.kind === 'example' && step.reply !== null ? step.reply.line : step.line;
}

function describe({ method, target, status, body }: RecordedCall): string {
  return `${method} ${target} answered ${status} ${body.slice(0, 600)}`;
}
