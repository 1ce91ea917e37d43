import type { Writable } from 'node:stream';
import { parseArgs } from 'node:util';
import { openGateway, servicesOf } from '#scripts/sandbox/gateway.ts';
import { bankQuestion } from '#scripts/sandbox/neighbours/question-bank.ts';
import { mathsPaper } from '#scripts/sandbox/school/paper.ts';
import { contactsOf, type School, schoolOf } from '#scripts/sandbox/school/school.ts';
import { openProgress } from '#scripts/start/progress.ts';
import { sitExams } from './exams.ts';
import { ADDED_KINDS, type AddedKind, type Filling } from './fill.ts';
import { fillInboxes } from './inboxes.ts';
import { useModels } from './model-work.ts';
import { DEVELOPMENT_PASSWORD, registerPeople, type SignIn } from './people.ts';

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

interface Around {
  env: NodeJS.ProcessEnv;
  output: Writable & { isTTY?: boolean };
  fail(line: string): void;
}

/** Fills a cluster with a school. Returns the exit code. */
export async function runSeed(args: readonly string[], { env, output, fail }: Around): Promise<number> {
  const options = readOptions(args, env, fail);
  if (options === 'help') {
    output.write(USAGE);
    return 0;
  }
  if (options === null) {
    fail(USAGE);
    return 64;
  }
  const { url } = options;
  const refused = await refusalOf(url, options.yes);
  if (refused !== null) {
    fail(`error: ${refused}`);
    return 1;
  }
  const progress = openProgress(output);
  const gateway = openGateway(url, env);
  const added = new Map<AddedKind, number>();
  const notes: string[] = [];
  try {
    const school = schoolOf(options.seed, options.students);
    const filling: Filling = {
      gateway,
      progress,
      school,
      served: await servicesOf(gateway),
      add: (kind, count = 1) => void added.set(kind, (added.get(kind) ?? 0) + count),
      note(line) {
        if (!notes.includes(line)) notes.push(line);
      },
    };
    progress.line(`A school of ${options.students} students at ${url} (seed ${options.seed})`);
    const signIns = await registerPeople(filling, options.accounts);
    notes.push(...(await teachNeighbours(options.neighbours, school)));
    await fillInboxes(filling);
    await sitExams(filling);
    await useModels(filling);
    const hasGatewayToken = Boolean(env.GATEWAY_TOKEN);
    for (const line of report(url, { hasGatewayToken, school, signIns, added, notes })) progress.line(line);
    return 0;
  } catch (error) {
    fail(`error: ${error instanceof Error ? error.message : error}; a further run continues here`);
    return 1;
  }
}

/**
 * Returns why the cluster is not filled, or null. Production is recognized by `GET /`, which names the commands of a developer only
 * outside production.
 */
async function refusalOf(url: string, yes: boolean): Promise<string | null> {
  const { hostname } = new URL(url);
  const isNear = hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.');
  if (!isNear && !yes) return `${url} is an address of another machine; pass --yes to fill its cluster`;
  try {
    const reply = await fetch(new URL('/', url), {
      headers: { accept: 'application/json' },
      signal: AbortSignal.timeout(5_000),
    });
    const { data } = (await reply.json()) as { data?: { service?: unknown; commands?: unknown[] } };
    if (data?.service !== 'examhall') return `${url} is no examhall cluster`;
    const isProduction = data.commands?.length === 0;
    return isProduction && !yes ? `${url} is a production cluster; pass --yes to fill it` : null;
  } catch {
    return `no cluster is ready at ${url}; start one with \`npm start\``;
  }
}

/** Teaches the stand-ins the parents and the contacts of the school, and the questions of its papers. Returns a note if none answer. */
async function teachNeighbours(url: string, school: School): Promise<string[]> {
  const students = school.classes.flatMap((room) => room.students);
  const parents = Object.fromEntries(students.map(({ id, parentIds }) => [id, parentIds]));
  const facts = [
    ['profile', { parents, contacts: contactsOf(school) }],
    ['question-bank', { questions: mathsPaper().map(bankQuestion) }],
  ] as const;
  try {
    for (const [name, body] of facts) {
      const reply = await fetch(new URL(`/_control/${name}/facts`, url), {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(5_000),
      });
      if (!reply.ok) throw new Error(`status ${reply.status}`);
    }
    return [];
  } catch {
    return [
      `No stand-ins answer at ${url}, so notices to parents wait. Run \`npm run neighbours\`, start the cluster with NEIGHBOURS_URL=${url}, and seed again.`,
    ];
  }
}

interface Facts {
  hasGatewayToken: boolean;
  school: School;
  signIns: readonly SignIn[];
  added: ReadonlyMap<AddedKind, number>;
  notes: readonly string[];
}

/** Returns the lines at the end of a run. */
function report(url: string, { hasGatewayToken, school, signIns, added, notes }: Facts): string[] {
  return [
    '',
    ...addedLines(added),
    ...notes,
    '',
    'Exams',
    ...school.exams.map(({ id, state, title }) => `  ${state.padEnd(10)} ${id.padEnd(26)} ${title}`),
    ...(signIns.length === 0 ? [] : ['', `Sign-ins, all with the password ${DEVELOPMENT_PASSWORD}`]),
    ...signIns.map(({ role, email, fullName }) => `  ${role.padEnd(8)} ${email.padEnd(36)} ${fullName}`),
    '',
    ...startingPoints(url, school, { hasGatewayToken }),
  ];
}

/** Returns the lines that name where to begin with a school. With a gateway token, the call for the inbox takes it from the reader's shell. */
export function startingPoints(
  url: string,
  school: School,
  { hasGatewayToken }: { hasGatewayToken: boolean },
): string[] {
  const [reader] = school.classes.flatMap((room) => room.students);
  const released = school.exams.find(({ state }) => state === 'released');
  const identity = `-H x-actor-id:${reader?.id} -H x-actor-role:STUDENT`;
  const gateway = hasGatewayToken ? ' -H x-gateway-token:$GATEWAY_TOKEN' : '';
  return [
    'To look at',
    `  console  ${url}/ops`,
    `  inbox    curl -s ${url}/v1/notifications ${identity}${gateway}`,
    `  exam     npm run examhall -- exam ${released?.id}`,
    `  trace    npm run examhall -- trace student:${reader?.id}`,
  ];
}

function addedLines(added: ReadonlyMap<AddedKind, number>): string[] {
  if (added.size === 0) return ['Nothing was added: the school was complete.'];
  return [
    `Added: ${ADDED_KINDS.flatMap((kind) => (added.has(kind) ? [`${added.get(kind)} ${kind}`] : [])).join(', ')}`,
  ];
}

function readOptions(args: readonly string[], env: NodeJS.ProcessEnv, fail: (line: string) => void) {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        help: { type: 'boolean', short: 'h' },
        url: { type: 'string', default: DEFAULT_URL },
        students: { type: 'string', default: '200' },
        seed: { type: 'string', default: '2025' },
        accounts: { type: 'string', default: '4' },
        neighbours: { type: 'string', default: env.NEIGHBOURS_URL ?? DEFAULT_NEIGHBOURS },
        yes: { type: 'boolean', default: false },
      },
    });
    if (values.help === true) return 'help';
    const { url, seed, neighbours, yes } = values;
    const [students, accounts] = [Number(values.students), Number(values.accounts)];
    const isWhole = (value: number, least: number) =>
      Number.isInteger(value) && value >= least && value <= MAX_STUDENTS;
    const isUrl = (text: string) => /^https?:$/.test(URL.parse(text)?.protocol ?? '');
    const isSeed = /^[A-Za-z0-9-]{1,32}$/.test(seed);
    if (!isWhole(students, 1) || !isWhole(accounts, 0) || !isSeed) return null;
    if (!isUrl(url) || !isUrl(neighbours)) return null;
    return { url: url.replace(/\/+$/, ''), neighbours, seed: seed.toLowerCase(), students, accounts, yes };
  } catch (error) {
    fail(`error: ${error instanceof Error ? error.message : error}`);
    return null;
  }
}
