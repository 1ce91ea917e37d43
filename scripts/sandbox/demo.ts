import { parseArgs } from 'node:util';
import { openProgress } from '#scripts/start/progress.ts';
import { onStopSignals } from '#scripts/start/supervisor/processes.ts';
import { httpUrl, nullIfTaken, runCommand, TERMINAL, wholeNumber } from './command-line.ts';
import { addDispatcher, type OwnCluster, startOwnCluster, storesOf } from './demo/processes.ts';
import { runDemo } from './demo/run-demo.ts';
import { openStandIns } from './neighbours/open-stand-ins.ts';
import { mathsPaper } from './school/paper.ts';
import { schoolYear } from './school/school.ts';

const DEFAULT_URL = 'http://127.0.0.1:3000';
const MAX_STUDENTS = 5_000;

const USAGE = `npm run demo -- [options]

  --url URL           use this running cluster (default: ${DEFAULT_URL} if one answers there, otherwise start one)
  --own               always start a cluster for the demo; at the end it is stopped and its data deleted
  --students N        number of students, 1 to ${MAX_STUDENTS} (default 40)
  --seed TEXT         equal seeds make equal names, skills and answers (default 2025)
  --profile-port P    port of the stand-ins for the profile service and the question bank (default 3999; a free port if the demo starts
                      the cluster)

The demo reads the same tokens from the environment as the cluster: ATTEMPT_INTERNAL_SERVICE_TOKEN, otherwise INTERNAL_SERVICE_TOKEN
(default dev-internal-token), and GATEWAY_TOKEN. A dispatcher that the demo adds also reads those of the attempt service.
The demo skips services that the cluster does not serve, and prints that it does. Without a classifier it marks the essays itself.
Exit code: 0 everything is correct; 1 something is lost, duplicated or wrong; 2 everything is correct, but the notices could not all be
checked: the cluster has no profile service that knows the parents and its stores are unknown here, or it serves no notification service;
64 an invalid option.
`;

process.exitCode = await runCommand(USAGE, process.argv.slice(2), TERMINAL, { read: readOptions, run: demo });

type Options = ReturnType<typeof readOptions>;

function readOptions(args: string[]) {
  const { values } = parseArgs({
    args,
    options: {
      url: { type: 'string' },
      own: { type: 'boolean', default: false },
      // One class: the slowest stand-in for MongoDB stores some 50 answers a second.
      students: { type: 'string', default: '40' },
      seed: { type: 'string', default: '2025' },
      'profile-port': { type: 'string' },
    },
  });
  const { url, own, seed, 'profile-port': port } = values;
  return {
    url: url === undefined ? null : httpUrl('url', url),
    own,
    seed,
    students: wholeNumber('students', values.students, [1, MAX_STUDENTS]),
    port: port === undefined ? null : wholeNumber('profile-port', port, [0, 65_535]),
  };
}

async function demo({ url, own: startsOwn, seed, ...options }: Options): Promise<number> {
  const running = startsOwn ? null : await runningCluster(url ?? DEFAULT_URL);
  if (running === null && !startsOwn && url !== null) {
    TERMINAL.fail(`error: no cluster is ready at ${url}; start one with \`npm start\`, or omit --url`);
    return 1;
  }
  const students = schoolYear(options.students, seed);
  const questions = mathsPaper();
  const port = options.port ?? (running === null ? 0 : 3_999);
  const standIns = await openStandIns({ port, env: process.env, questions }).catch(nullIfTaken);
  if (standIns === null) {
    TERMINAL.fail(`error: port ${port} is in use, perhaps by another demo; end that one, or pass --profile-port`);
    return 1;
  }
  const parents = Object.fromEntries(students.map(({ id, parentIds }) => [id, parentIds]));
  // Notices of other students wait for the real profile service, and spend no attempt.
  standIns.profile.learn({ parents, unknownStudent: 403 });

  let own: OwnCluster | null = null;
  let stopDispatcher: (() => Promise<void>) | undefined;
  const stop = async () => {
    await Promise.allSettled([own?.stop(), stopDispatcher?.()]);
    await standIns.close().catch(() => undefined);
  };
  onStopSignals({ first: () => void stop().finally(() => process.exit(130)), again: () => undefined });
  const dispatchTo = (clusterUrl: string) => {
    const stores = storesOf(process.env);
    if (stores !== undefined)
      stopDispatcher = addDispatcher(stores, { clusterUrl, profileUrl: standIns.urlOf('profile') });
    return stores !== undefined;
  };
  const progress = openProgress(process.stdout);
  try {
    if (running === null) {
      progress.line('Starting a cluster for this demo; it is stopped at the end');
      own = await startOwnCluster(standIns, (line) => progress.line(`  ${line}`));
    }
    return await runDemo({
      url: running ?? own?.url ?? DEFAULT_URL,
      examId: `demo-toan-2025-${Date.now().toString(36)}`,
      students,
      seed,
      progress,
      questions,
      standIns,
      own,
      env: process.env,
      addDispatcher: running === null ? null : () => dispatchTo(running),
    });
  } finally {
    await stop();
  }
}

async function runningCluster(url: string): Promise<string | null> {
  try {
    const reply = await fetch(new URL('/readyz', url), { signal: AbortSignal.timeout(2_000) });
    const envelope = (await reply.json()) as { data?: { checks?: unknown } };
    return reply.ok && envelope.data?.checks !== undefined ? url : null;
  } catch {
    return null;
  }
}
