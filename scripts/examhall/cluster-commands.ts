import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { readQueues, readStatus, readWorkers } from '#infra/mongo/operations/cluster.ts';
import { checkInvariants, type InvariantReport } from '#infra/mongo/operations/invariants.ts';
import { type Finding, probe } from '#infra/mongo/probe/probe.ts';
import { SCHEMA_VERSION } from '#infra/mongo/schema/migrate.ts';
import { schemaStatus } from '#infra/mongo/schema/schema-status.ts';
import { type RedisFacts, readRedisFacts, storesRings } from '#infra/redis/connection.ts';
import type { ClusterStatus, QueueState } from '#shared/generated/operations.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import type { CliCommands, Flags, Operator } from './operator.ts';
import { counted, EXIT, print, table } from './output.ts';

/** The commands for the whole cluster: whether it needs its operator, its queues and its workers. */
export const STATUS_COMMANDS: CliCommands = {
  status: {
    summary: 'check whether all is well; otherwise print what to do',
    details: `Exit code 1 with an alarm: work is due without a live worker, a queue is a minute late, a
command that harmed two workers is held or runs alone, one piece of work held an event loop
for 2.5 s, a dead letter is neither acknowledged nor dropped, Redis stores no rings, a service does
not answer or refuses its token, its sender or its address, commands have failed for ten minutes, a
run hangs, or the schema does not fit. A note is no alarm: commands wait for a setting, or reports to
other systems fail or are dead.`,
    options: ['json', 'watch'],
    examples: ['status', 'status --watch', 'status --json || notify-operator'],
    run: tellStatus,
  },
};

export const CLUSTER_COMMANDS: CliCommands = {
  queues: {
    summary: 'list waiting, due, running and dead commands, and the age of the oldest due one',
    details: '--json also has the load of each process type, as `GET /v1/ops/queues` returns it.',
    options: ['json', 'watch'],
    examples: ['queues', 'queues --watch 5', 'queues --json | jq .actors'],
    run: listQueues,
  },
  workers: {
    summary: 'list live worker processes and their current work',
    options: ['json', 'watch'],
    examples: ['workers', 'workers --json | jq \'.workers[] | select(.actor == "grading")\''],
    run: listWorkers,
  },
};

async function tellStatus(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const { mongo, redisUrl } = operator;
  const status = await readStatus(mongo, operator.now(), () => storesRings(redisUrl));
  const { well, alarms, notes, workers, running, due } = status;
  print(operator, flags, status, () => [
    verdictOf(status),
    ...alarms.map(({ text, remedy }) => `  ${text}: ${remedy}`),
    ...notes.map(({ text, remedy }) => `  note: ${text}: ${remedy}`),
    `${workers} live worker processes, ${running} commands running, ${due} due`,
  ]);
  return well ? EXIT.done : EXIT.failed;
}

function verdictOf({ well, alarms, notes }: ClusterStatus): string {
  if (well && notes.length === 0) return 'all is well';
  const noted = notes.length === 0 ? '' : `, ${counted(notes.length, 'note')}`;
  return `${well ? 'no alarm' : counted(alarms.length, 'alarm')}${noted}`;
}

async function listWorkers(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const list = await readWorkers(operator.mongo, operator.now());
  return print(operator, flags, list, () =>
    table(list.workers, {
      actor: ({ actor }) => actor,
      host: ({ host }) => host,
      pid: ({ pid }) => pid,
      busy: ({ busy, slots }) => `${busy.length}/${slots}`,
      memory: ({ rssBytes }) => `${Math.round(rssBytes / 1e6)} MB`,
      seen: ({ seenAt }) => `${Math.round((Date.parse(list.at) - Date.parse(seenAt)) / 1_000)} s ago`,
      version: ({ version }) => version,
      'not answering': ({ unanswering }) => unanswering.map(({ name }) => name).join(' ') || null,
      commands: ({ busy }) => commandsOf(busy),
    }),
  );
}

async function listQueues(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const list = await readQueues(operator.mongo, operator.now());
  return print(operator, flags, list, () =>
    table(list.queues, {
      queue: ({ queue }) => queue,
      waiting: ({ waiting }) => waiting,
      due: ({ due }) => due,
      running: ({ running }) => running,
      dead: ({ dead }) => dead,
      acknowledged: ({ acknowledged }) => acknowledged,
      'oldest due': ({ oldestDueMs }) => (oldestDueMs === null ? null : `${Math.round(oldestDueMs / 1_000)} s`),
      workers: workersOf,
    }),
  );
}

/** Ids that a row shows, as in the console. */
const SHOWN_IDS = 5;

/** Returns the ids of the commands that a worker runs. `--json` has all of them. */
function commandsOf(busy: readonly string[]): string | null {
  if (busy.length === 0) return null;
  const more = busy.length > SHOWN_IDS ? [`+${busy.length - SHOWN_IDS}`] : [];
  return [...busy.slice(0, SHOWN_IDS), ...more].join(' ');
}

/** Returns the number of live workers of a queue, or why its commands wait. */
function workersOf({ actor, due, workers, configured }: QueueState): string {
  if (!configured) return `${workers}, not configured for it`;
  return due > 0 && workers === 0 ? `no worker: scale \`${actor}\`` : `${workers}`;
}

export const DOCTOR_COMMANDS: CliCommands = {
  doctor: {
    summary: "check MongoDB's behaviour, the schema, Redis, clocks, versions, and the promises about stored rows",
    details: `It writes only into collections of its own, which it drops. The promises are read-only and bounded: each
check reads the newest rows, or those that wait. Exit code 1 if anything is missing or broken.`,
    options: ['json'],
    examples: ['doctor', 'doctor --json'],
    run: examine,
  },
};

/** Difference between the clocks of this machine and of MongoDB from which it is a fault: tokens and logs would be misleading. */
const CLOCK_TOLERANCE_MS = MINUTE;

/** One line of the report; `fault` is null if the check passed. */
interface Check {
  name: string;
  fault: string | null;
  /** Beginning of the line of a fault; default `missing`. */
  word?: 'missing' | 'broken';
}

/** Probes the server, even if `release` has probed it before, and then checks everything around it. Returns 1 if anything is missing. */
async function examine(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const { mongo, redisUrl } = operator;
  const { server, findings } = await probe(mongo);
  const schema = await schemaStatus(mongo, operator.now());
  const redis = await readRedisFacts(redisUrl);
  const clockMs = Math.round(operator.now() - Date.now());
  const versions = [...new Set((await liveWorkers(mongo, operator.now())).map(({ version }) => version))].sort();
  const { faults, missingIndexes } = schema;
  // The checks of promises name indexes, without which MongoDB refuses the query.
  const isWhole = faults.length + missingIndexes.length === 0;
  const promises = isWhole ? await checkInvariants(mongo, operator.now()) : [];
  const checks = [
    ...schemaChecks(schema),
    redisCheck(redis),
    clockCheck(clockMs),
    // Two versions run side by side while a deployment rolls.
    {
      name: `versions: ${versions.length === 0 ? 'no live worker' : `live workers run ${versions.join(' and ')}`}`,
      fault: null,
    },
    ...promises.map(promiseCheck),
  ];
  const report = { server, findings, schema: faults, missingIndexes, redis, clockMs, versions, checks, promises };
  print(operator, flags, report, () => [
    `MongoDB ${server.build}, ${server.topology}`,
    ...[...findings, ...checks].map(lineOf),
    ...(isWhole ? [] : ['the promises about stored rows were not checked: they need every index']),
  ]);
  return [...findings, ...checks].every(({ fault }) => fault === null) ? EXIT.done : EXIT.failed;
}

function schemaChecks({ faults, missingIndexes }: { faults: string[]; missingIndexes: string[] }): Check[] {
  const missing = missingIndexes.filter(
    (index) => !faults.some((fault) => fault.includes(index.split('.')[1] ?? index)),
  );
  return [
    ...faults.map((fault) => ({ name: 'schema', fault })),
    ...missing.map((index) => ({
      name: `index ${index}`,
      fault: 'queries read the whole collection: run `examhall migrate`',
    })),
    ...(faults.length + missing.length === 0
      ? [{ name: `schema: complete for version ${SCHEMA_VERSION}`, fault: null }]
      : []),
  ];
}

function redisCheck(redis: RedisFacts | null): Check {
  if (redis === null) return { name: 'Redis', fault: 'it does not answer. Commands wait for the polls of workers' };
  const { version, evictionPolicy, ringFault } = redis;
  const name = version === null ? 'Redis' : `Redis ${version}`;
  if (ringFault !== null)
    return { name, fault: `it stores no rings: ${ringFault}. Commands wait for the polls of workers` };
  if (evictionPolicy === null) return { name: `${name}: its eviction policy is not visible to this user`, fault: null };
  const fault =
    evictionPolicy === 'noeviction'
      ? null
      : `maxmemory-policy is ${evictionPolicy}, not noeviction. A full Redis drops rings`;
  return { name: `${name}, noeviction`, fault };
}

function clockCheck(clockMs: number): Check {
  const far = Math.abs(clockMs) > CLOCK_TOLERANCE_MS;
  return {
    name: `clock: MongoDB is ${Math.abs(clockMs)} ms ${clockMs < 0 ? 'behind' : 'ahead of'} this machine`,
    fault: far ? 'more than a minute. Tokens of other issuers are refused, and logs mislead' : null,
  };
}

function promiseCheck({ name, count, examples, checked, isCut, remedy, unread }: InvariantReport): Check {
  const read = `${name} (${isCut ? 'the newest ' : ''}${checked} read)`;
  if (unread !== null) return { name, fault: `not checked: ${unread}` };
  if (count === 0) return { name: read, fault: null };
  return { name: read, fault: `${count} broken, such as ${examples.join(', ')}. ${remedy}`, word: 'broken' };
}

function lineOf({ name, fault, breaks, word = 'missing' }: Check & Partial<Finding>): string {
  if (fault === null) return `ok       ${name}`;
  return `${word.padEnd(9)}${name}: ${fault}${breaks === undefined ? '' : `. ${breaks}`}`;
}
