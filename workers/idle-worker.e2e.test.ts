import t, { type Test } from 'tap';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { startWorker } from '#testing/processes/worker-process.ts';
import { openLane } from '#testing/suites/crash-suite.ts';
import { until } from '#testing/until.ts';
import { ACTORS } from './actors.ts';

/** Libraries that an idle worker does not need: those of the front doors, of model providers and of metrics without a reader. */
const FOREIGN = [
  ...['restify', 'libphonenumber-js', 'bcrypt', 'jsonwebtoken', '@zxcvbn-ts/language-common'],
  ...['undici', 'eventsource-parser', 'ajv', '@prometheus-io/client', 'es-abstract', 'nodemailer'],
];
/** Libraries that the clients of model providers need before the first call. That call loads undici. */
const OF_MODELS = ['eventsource-parser', 'ajv'];
/** Node's own HTTP client. `fetch` loads it at the first call, and so does an import of `node:http`. */
const OWN_CLIENT = 'NativeModule internal/deps/undici/undici';
const FOLDERS: Readonly<Record<string, string>> = {
  essayhandoff: 'essay-handoff',
  resultsrelease: 'results-release',
  gradenotices: 'grade-notices',
  accountnotices: 'account-notices',
};
/** Prints every loaded module at the end of the process. */
const LIST = `import { registerHooks } from 'node:module';
const loaded = [];
registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context); } });
process.on('exit', () => console.error(JSON.stringify([...loaded, ...process.moduleLoadList])));`;

/** Serves one worker after the other. */
const lane = await openLane(t);

/** Starts a worker until it is idle, and returns what it has loaded: libraries, folders of actors and modules of Node. */
async function loadedBy(t: Test, name: string, more: NodeJS.ProcessEnv = {}) {
  const { mongo, env } = lane;
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(LIST)}`;
  const worker = startWorker(t, name, { ...env, ...more, NODE_OPTIONS });
  await until('its heartbeat', async () => (await liveWorkers(mongo, Date.now())).some(({ actor }) => actor === name));
  t.equal(await worker.stop(), '0', worker.said());
  const loaded: string[] = JSON.parse(worker.said());
  const all = (pattern: RegExp) => new Set(loaded.flatMap((module) => pattern.exec(module)?.[1] ?? []));
  return { libraries: all(/\/node_modules\/((?:@[^/]+\/)?[^/]+)/), actors: all(/\/workers\/([^/]+)\//), loaded };
}

for (const name of Object.keys(ACTORS)) {
  t.test(`an idle ${name} worker loads its own actor and no library of the others`, async (t) => {
    const { libraries, actors, loaded } = await loadedBy(t, name);
    t.ok(libraries.has('mongodb'), 'the list is complete');
    t.strictSame([...actors], [FOLDERS[name] ?? name]);
    const expected = name === 'classifier' ? OF_MODELS : [];
    t.strictSame(FOREIGN.filter((library) => libraries.has(library)).sort(), expected.toSorted());
    if (name !== 'classifier') t.notOk(loaded.includes(OWN_CLIENT), 'Node’s HTTP client');
  });
}

t.test('a worker with METRICS_PORT loads the library of metrics', async (t) => {
  const { libraries } = await loadedBy(t, 'grading', { METRICS_PORT: '9' });
  t.ok(libraries.has('@prometheus-io/client'));
  t.notOk(libraries.has('undici'));
});
