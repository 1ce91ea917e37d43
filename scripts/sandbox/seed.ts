import type { Writable } from 'node:stream';
import { parseArgs } from 'node:util';
import { openProgress } from '#scripts/start/progress.ts';
import { httpUrl, reasonOf, runCommand, TERMINAL, wholeNumber } from './command-line.ts';
import { openGateway } from './gateway.ts';
import { bankQuestion } from './neighbours/owners.ts';
import { mathsPaper } from './school/paper.ts';
import { contactsOf, type School, schoolOf } from './school/school.ts';
import { fillInboxes, sitExams, useModels } from './seed/activities.ts';
import { DEVELOPMENT_PASSWORD, type Filling, type Person, registerPeople } from './seed/people.ts';

const DEFAULT_URL = 'http://127.0.0.1:3000';
const DEFAULT_NEIGHBOURS = 'http://127.0.0.1:3999';
const MAX_STUDENTS = 5_000;

const USAGE = `npm run seed -- [options]

  --url URL         cluster to fill (default ${DEFAULT_URL})
  --students N      number of students, 1 to ${MAX_STUDENTS} (default 200)
  --seed TEXT       letters, digits and dashes: equal seeds make equal schools, and a second run adds nothing (default 2025)
  --accounts N      students with an account, each with a parent; the teachers have one too (default 4)
  --neighbours URL  stand-ins that learn parents, contacts and questions (default NEIGHBOURS_URL, otherwise ${DEFAULT_NEIGHBOURS})
  --yes             fills a production cluster, or one of another machine

Fills a running cluster with a school through its HTTP front doors. It reads the same tokens from the environment as the cluster:
ATTEMPT_INTERNAL_SERVICE_TOKEN, otherwise INTERNAL_SERVICE_TOKEN (default dev-internal-token), and GATEWAY_TOKEN.
Exit code: 0 the school is complete; 1 it is not; 64 an invalid option.
`;

type Output = Writable & { isTTY?: boolean };

/** `npm run seed`: fills a running cluster with a school. Returns the exit code. */
export function runSeed(
  args: readonly string[],
  { env, output, fail }: { env: NodeJS.ProcessEnv; output: Output; fail(line: string): void },
): Promise<number> {
  const run = async (options: Options) => {
    try {
      await checkPlace(options);
      for (const line of await fill(options, env, output)) output.write(`${line}\n`);
      return 0;
    } catch (error) {
      fail(`error: ${reasonOf(error)}`);
      return 1;
    }
  };
  const print = (line: string) => void output.write(line);
  return runCommand(USAGE, args, { print, fail }, { read: (given) => readOptions(given, env), run });
}

type Options = ReturnType<typeof readOptions>;

function readOptions(args: string[], env: NodeJS.ProcessEnv) {
  const { values } = parseArgs({
    args,
    options: {
      url: { type: 'string', default: DEFAULT_URL },
      students: { type: 'string', default: '200' },
      seed: { type: 'string', default: '2025' },
      accounts: { type: 'string', default: '4' },
      neighbours: { type: 'string', default: env.NEIGHBOURS_URL ?? DEFAULT_NEIGHBOURS },
      yes: { type: 'boolean', default: false },
    },
  });
  const { seed, yes } = values;
  if (!/^[A-Za-z0-9-]{1,32}$/.test(seed)) throw new Error('--seed must be 1 to 32 letters, digits and dashes');
  return {
    url: httpUrl('url', values.url),
    neighbours: httpUrl('neighbours', values.neighbours),
    students: wholeNumber('students', values.students, [1, MAX_STUDENTS]),
    accounts: wholeNumber('accounts', values.accounts, [0, MAX_STUDENTS]),
    seed: seed.toLowerCase(),
    yes,
  };
}

/**
 * Checks that the cluster may be filled. Production is recognized by `GET /`, which names the commands of a developer only outside
 * production.
 * @throws Error with the reason why not
 */
async function checkPlace({ url, yes }: Options): Promise<void> {
  const { hostname } = new URL(url);
  const isNear = hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.');
  if (!isNear && !yes) throw new Error(`${url} is an address of another machine; pass --yes to fill its cluster`);
  const { data } = await landingOf(url);
  if (data?.service !== 'examhall') throw new Error(`${url} is no examhall cluster`);
  if (data.commands?.length === 0 && !yes) throw new Error(`${url} is a production cluster; pass --yes to fill it`);
}

async function landingOf(url: string): Promise<{ data?: { service?: unknown; commands?: unknown[] } }> {
  try {
    const headers = { accept: 'application/json' };
    const reply = await fetch(new URL('/', url), { headers, signal: AbortSignal.timeout(5_000) });
    return (await reply.json()) as Awaited<ReturnType<typeof landingOf>>;
  } catch {
    throw new Error(`no cluster is ready at ${url}; start one with \`npm start\``);
  }
}

/** Fills the cluster. Returns the lines at the end of the run. */
async function fill(
  { url, seed, students, accounts, neighbours }: Options,
  env: NodeJS.ProcessEnv,
  output: Output,
): Promise<string[]> {
  const progress = openProgress(output);
  const gateway = openGateway(url, env);
  const added = new Map<string, number>();
  const notes = new Set<string>();
  try {
    const school = schoolOf(seed, students);
    const filling: Filling = {
      gateway,
      progress,
      school,
      served: await gateway.services(),
      add: (kind, count = 1) => void added.set(kind, (added.get(kind) ?? 0) + count),
      note: (line) => void notes.add(line),
    };
    progress.line(`A school of ${students} students at ${url} (seed ${seed})`);
    const signIns = await registerPeople(filling, accounts);
    await teachNeighbours(neighbours, filling);
    await fillInboxes(filling);
    await sitExams(filling);
    await useModels(filling);
    return [
      '',
      addedLine(added),
      ...notes,
      ...schoolLines(school, signIns),
      ...startingPoints(url, school, { hasGatewayToken: Boolean(env.GATEWAY_TOKEN) }),
    ];
  } catch (error) {
    throw new Error(`${reasonOf(error)}; a further run continues here`, { cause: error });
  }
}

/** Teaches the stand-ins the parents and the contacts of the school, and the questions of its papers. Notes if none answer. */
async function teachNeighbours(url: string, { school, note }: Filling): Promise<void> {
  const students = school.classes.flatMap((room) => room.students);
  const parents = Object.fromEntries(students.map(({ id, parentIds }) => [id, parentIds]));
  const facts = {
    profile: { parents, contacts: contactsOf(school) },
    'question-bank': { questions: mathsPaper().map(bankQuestion) },
  };
  try {
    for (const [name, body] of Object.entries(facts)) {
      const place = new URL(`/_control/${name}/facts`, url);
      const signal = AbortSignal.timeout(5_000);
      const reply = await fetch(place, { method: 'PUT', body: JSON.stringify(body), signal });
      if (!reply.ok) throw new Error(`status ${reply.status}`);
    }
  } catch {
    note(
      `No stand-ins answer at ${url}, so notices to parents wait. Run \`npm run neighbours\`, start the cluster with NEIGHBOURS_URL=${url}, and seed again.`,
    );
  }
}

function addedLine(added: ReadonlyMap<string, number>): string {
  if (added.size === 0) return 'Nothing was added: the school was complete.';
  return `Added: ${[...added].map(([kind, count]) => `${count} ${kind}`).join(', ')}`;
}

function schoolLines({ exams }: School, signIns: readonly Person[]): string[] {
  return [
    '',
    'Exams',
    ...exams.map(({ id, state, title }) => `  ${state.padEnd(10)} ${id.padEnd(26)} ${title}`),
    ...(signIns.length === 0 ? [] : ['', `Sign-ins, all with the password ${DEVELOPMENT_PASSWORD}`]),
    ...signIns.map(({ role, email, fullName }) => `  ${role.padEnd(8)} ${email.padEnd(36)} ${fullName}`),
  ];
}

/** Returns the lines that name where to begin with a school. With a gateway token, the call for the inbox takes it from the reader's shell. */
export function startingPoints(
  url: string,
  { classes, exams }: School,
  { hasGatewayToken }: { hasGatewayToken: boolean },
): string[] {
  const reader = classes[0]?.students[0]?.id;
  const released = exams.find(({ state }) => state === 'released');
  const gateway = hasGatewayToken ? ' -H x-gateway-token:$GATEWAY_TOKEN' : '';
  return [
    '',
    'To look at',
    `  console  ${url}/ops`,
    `  inbox    curl -s ${url}/v1/notifications -H x-actor-id:${reader} -H x-actor-role:STUDENT${gateway}`,
    `  exam     npm run examhall -- exam ${released?.id}`,
    `  trace    npm run examhall -- trace student:${reader}`,
  ];
}

if (import.meta.main)
  process.exitCode = await runSeed(process.argv.slice(2), { ...TERMINAL, env: process.env, output: process.stdout });
