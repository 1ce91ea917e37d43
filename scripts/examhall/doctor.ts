import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { checkInvariants, type InvariantReport } from '#infra/mongo/operations/invariants.ts';
import { type Finding, probe } from '#infra/mongo/probe/probe.ts';
import { SCHEMA_VERSION } from '#infra/mongo/schema/migrate.ts';
import { schemaStatus } from '#infra/mongo/schema/schema-status.ts';
import { type RedisFacts, readRedisFacts } from '#infra/redis/connection.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import type { CliCommands, Operator } from './operator.ts';
import type { Flags } from './options.ts';
import { EXIT, print } from './output.ts';

/** The command that checks the stores on which the cluster depends. */
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
