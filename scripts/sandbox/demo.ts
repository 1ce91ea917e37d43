import path from 'node:path';
import { parseArgs } from 'node:util';
import {
  addDispatcher,
  type Dispatcher,
  type OwnCluster,
  startOwnCluster,
  storesOf,
} from '#scripts/sandbox/demo/processes.ts';
import { runDemo } from '#scripts/sandbox/demo/run-demo.ts';
import { openStandIns } from '#scripts/sandbox/neighbours/open-stand-ins.ts';
import { mathsPaper } from '#scripts/sandbox/school/paper.ts';
import { schoolYear } from '#scripts/sandbox/school/students.ts';
import { openProgress } from '#scripts/start/progress.ts';

const USAGE = `npm run demo -- [options]

  --url URL           use this running cluster (default: http://127.0.0.1:3000 if one answers there, otherwise start one)
  --own               always start a cluster for the demo; at the end it is stopped and its data deleted
  --students N        number of students, 1 to 5000 (default 40)
  --seed TEXT         equal seeds make equal names, skills and answers (default 2025)
  --profile-port P    port of the stand-ins for the profile service and the question bank (default 3999; a free port if the demo starts
                      the cluster)

The demo reads the same tokens from the environment as the cluster: ATTEMPT_INTERNAL_SERVICE_TOKEN, otherwise INTERNAL_SERVICE_TOKEN
(default dev-internal-token), and GATEWAY_TOKEN. A dispatcher that the demo adds also reads those of the attempt service.
The demo skips services that the cluster does not serve, and prints that it does. Without a classifier it marks the essays itself.
Exit code: 0 everything is correct; 1 something is lost, duplicated or wrong; 2 everything is correct, but the notices could not all be
checked: the cluster has no profile service that knows the parents and its stores are unknown here, or it serves no notification service.
`;

const ROOT = path.resolve(import.meta.dirname, '../..');
const DEFAULT_URL = 'http://127.0.0.1:3000';
const DEFAULT_PROFILE_PORT = 3_999;
/** One class: the slowest stand-in for MongoDB stores some 50 answers a second. */
const DEFAULT_STUDENTS = '40';
const MAX_STUDENTS = 5_000;

process.exitCode = await main(process.argv.slice(2));

async function main(args: string[]): Promise<number> {
  const options = read(args);
  if (options === 'help') {
    console.log(USAGE);
    return 0;
  }
  if (options === null) {
    console.error(USAGE);
    return 64;
  }
  const progress = openProgress(process.stdout);
  const running = options.own ? null : await runningCluster(options.url ?? DEFAULT_URL);
  if (running === null && options.url !== undefined) {
    console.error(`error: no cluster is ready at ${options.url}; start one with \`npm start\`, or omit --url`);
    return 1;
  }
  const examId = `demo-toan-2025-${Date.now().toString(36)}`;
  const students = schoolYear(options.students, options.seed);
  const port = options.profilePort ?? (running === null ? 0 : DEFAULT_PROFILE_PORT);
  const questions = mathsPaper();
  const standIns = await openStandIns({ port, env: process.env, questions }).catch(portTakenOrThrow);
  if (standIns === null) {
    console.error(`error: port ${port} is in use, perhaps by another demo; end that one, or pass --profile-port`);
    return 1;
  }
  const parents = Object.fromEntries(students.map(({ id, parentIds }) => [id, parentIds]));
  // Notices of other students wait for the real profile service, and spend no attempt.
  standIns.profile.learn({ parents, unknownStudent: 403 });
  let own: OwnCluster | undefined;
  let dispatcher: Dispatcher | undefined;
  const stop = async () => {
    await Promise.allSettled([own?.stop(), dispatcher?.stop()]);
    await standIns.close().catch(() => undefined);
  };
  onSignal(stop);
  const dispatch = (clusterUrl: string) => {
    const stores = storesOf(ROOT, process.env);
    if (stores !== undefined)
      dispatcher = addDispatcher(ROOT, stores, { clusterUrl, profileUrl: standIns.urlOf('profile') });
    return stores !== undefined;
  };
  try {
    if (running === null) {
      progress.line('Starting a cluster for this demo; it is stopped at the end');
      own = await startOwnCluster({
        root: ROOT,
        standIns,
        say: (line) => progress.line(`  ${line}`),
      });
    }
    const url = own?.url ?? running ?? DEFAULT_URL;
    return await runDemo({
      url,
      examId,
      students,
      seed: options.seed,
      progress,
      questions,
      standIns,
      own: own ?? null,
      env: process.env,
      delivery: {
        losses: own === undefined ? null : standIns.notification.losses,
        addDispatcher: own === undefined ? () => dispatch(url) : null,
      },
    });
  } finally {
    await stop();
  }
}

/** Returns null for a port that is in use. @throws any other error */
function portTakenOrThrow(error: NodeJS.ErrnoException): null {
  if (error.code === 'EADDRINUSE') return null;
  throw error;
}

/** Returns the URL if a cluster is ready there, otherwise null. */
async function runningCluster(url: string): Promise<string | null> {
  try {
    const reply = await fetch(new URL('/readyz', url), { signal: AbortSignal.timeout(2_000) });
    const envelope = (await reply.json()) as { data?: { checks?: unknown } };
    return reply.ok && envelope.data?.checks !== undefined ? url : null;
  } catch {
    return null;
  }
}

function read(args: string[]) {
  try {
    const { values } = parseArgs({
      args,
      options: {
        help: { type: 'boolean', short: 'h' },
        url: { type: 'string' },
        own: { type: 'boolean' },
        students: { type: 'string', default: DEFAULT_STUDENTS },
        seed: { type: 'string', default: '2025' },
        'profile-port': { type: 'string' },
      },
    });
    const students = Number(values.students);
    if (values.help === true) return 'help';
    if (!Number.isInteger(students) || students < 1 || students > MAX_STUDENTS) return null;
    const port = values['profile-port'];
    return {
      students,
      seed: values.seed,
      own: values.own === true,
      url: values.url,
      profilePort: port === undefined ? undefined : Number(port),
    };
  } catch (error) {
    console.error(`error: ${error instanceof Error ? error.message : error}`);
    return null;
  }
}

/** Stops the demo's cluster before an interrupted demo exits. */
function onSignal(stop: () => Promise<void>): void {
  let begun = false;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (begun) return;
      begun = true;
      void stop().finally(() => process.exit(130));
    });
  }
}
