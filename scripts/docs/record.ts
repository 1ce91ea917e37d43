import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { readExamples } from '#api/openapi-examples.ts';
import { startThrowAwayServices } from '#scripts/services/throw-away.ts';
import { recorded } from './compare.ts';
import { recordedStream } from './event-text.ts';
import { Identities } from './forms.ts';
import { layout } from './layout.ts';
import { examplesOf, operationsAt, type Success, successesOf } from './operation-examples.ts';
import type { Page, Span } from './page.ts';
import { clusterFor, examplePages, pageAt } from './pages.ts';
import { closest, runPage, type StepRun, stepDifferences } from './run-page.ts';

/**
 * `node scripts/docs/record.ts docs/gateway/attempt.md …`: runs pages and writes the real replies into them. A reply that differs only in
 * ids, times and other volatile values stays as it is. An empty `json` block below a status, any status, is filled.
 *
 * `node scripts/docs/record.ts --examples`: runs the reference and writes the examples of the OpenAPI document.
 */
const ROOT = path.resolve(import.meta.dirname, '../..');

/** A replacement of a part of the page. */
interface Edit extends Span {
  readonly text: string;
}

/** Returns the page with the replies of this run. */
export function rewritten(page: Page, runs: readonly StepRun[]): string {
  const identities = new Identities();
  const edits = runs.flatMap((run) => editsOf(page, run, identities));
  return edits.toReversed().reduce((text, { start, end, text: replacement }) => {
    // An empty block has no line between its fences.
    return text.slice(0, start) + replacement + (start === end ? '\n' : '') + text.slice(end);
  }, page.source);
}

function editsOf(page: Page, run: StepRun, identities: Identities): Edit[] {
  const isEmpty = 'calls' in run && run.step.reply?.value.trim() === '';
  if (!isEmpty && stepDifferences(run, identities.copy()).length === 0) {
    stepDifferences(run, identities);
    return [];
  }
  if ('received' in run) {
    const { start, end, request } = run.step;
    const { real } = closest(run, identities);
    const head = page.source.slice(start, end).split(/\n[ \t]*\n/)[0] ?? '';
    return [{ start, end, text: `${head}\n\n${layout(recorded(request.body, real.body, identities))}` }];
  }
  const { step, calls, output } = run;
  const { reply } = step;
  const last = calls.at(-1);
  if (reply === null) throw new Error(stepDifferences(run, identities).join('\n'));
  const { start, end, status, value } = reply;
  const edits: Edit[] = [];
  if (status !== null && last !== undefined) edits.push({ ...status, text: `${last.status}` });
  if (reply.kind === 'json') {
    const shown = value.trim() === '' ? undefined : JSON.parse(value);
    edits.push({ start, end, text: layout(recorded(shown, JSON.parse(last?.body || 'null'), identities)) });
  } else {
    const isStream = last?.type === 'text/event-stream';
    const text = isStream ? recordedStream(value, last.body, identities) : identities.shown(output.trim());
    edits.push({ start, end, text });
  }
  return edits;
}

if (import.meta.main) {
  const { MONGODB_URL, REDIS_URL } = process.env;
  const services = await startThrowAwayServices({ mongodb: !MONGODB_URL, redis: !REDIS_URL });
  process.env.MONGODB_URL ||= services.mongodb?.url;
  process.env.REDIS_URL ||= services.redis?.url;
  const teardowns: (() => unknown)[] = [services.close];
  try {
    const files = process.argv.slice(2);
    const wantsExamples = files.includes('--examples');
    const successes: Success[] = [];
    for (const page of wantsExamples ? examplePages() : files.map(pageAt)) {
      const { file } = page;
      const cluster = await clusterFor({ teardown: (work) => void teardowns.unshift(work) }, page);
      const runs: StepRun[] = [];
      for await (const run of runPage(page, cluster)) runs.push(run);
      if (wantsExamples) {
        successes.push(...successesOf(runs, await operationsAt(cluster.url)));
        console.log(`${file}: ${runs.length} examples`);
        continue;
      }
      const text = rewritten(page, runs);
      if (text !== page.source) writeFileSync(path.join(ROOT, file), text);
      console.log(`${file}: ${text === page.source ? 'nothing changed' : 'rewritten'}`);
    }
    if (wantsExamples) {
      const examples = examplesOf(successes, readExamples());
      writeFileSync(path.join(ROOT, 'api/openapi-examples.json'), `${JSON.stringify(examples, null, 2)}\n`);
    }
  } finally {
    for (const work of teardowns) await work();
  }
}
