import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { type Finding, probe } from '#infra/mongo/probe/probe.ts';
import { SCHEMA_VERSION } from '#infra/mongo/schema/migrate.ts';
import { schemaStatus } from '#infra/mongo/schema/schema-status.ts';
import { type RedisFacts, readRedisFacts } from '#infra/redis/ask-once.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { EXIT } from './exit-codes.ts';
import type { CliCommands, Flags, Operator } from './operator.ts';
import { print } from './output.ts';

/** The command that checks the stores on which the cluster depends. */
export const DOCTOR_COMMANDS: CliCommands = {
  doctor: {
    summary: "check MongoDB's behaviour, the schema and its indexes, Redis, clocks and versions",
    details: 'It writes only into collections of its own, which it drops. Exit code 1 if anything is missing.',
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
}

/** Probes the server, even if `release` has probed it before, and then checks everything around it. Returns 1 if anything is missing. */
async function examine(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const { mongo, redisUrl } = operator;
  const { server, findings } = await probe(mongo);
  const schema = await schemaStatus(mongo, operator.now());
  const redis = await readRedisFacts(redisUrl);
  const clockMs = Math.round(operator.now() - Date.now());
  const versions = [...new Set((await liveWorkers(mongo, operator.now())).map(({ version }) => version))].sort();
  const checks = [...schemaChecks(schema), redisCheck(redis), clockCheck(clockMs), versionCheck(versions)];
  const { faults, missingIndexes } = schema;
  print(operator, flags, { server, findings, schema: faults, missingIndexes, redis, clockMs, versions, checks }, () =>
    [`MongoDB ${server.build}, ${server.topology}`, ...findings.map(lineOf), ...checks.map(lineOf)].join('\n'),
  );
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
  const { version, evictionPolicy } = redis;
  if (evictionPolicy === null)
    return { name: `Redis ${version}: its eviction policy is not visible to this user`, fault: null };
  const fault =
    evictionPolicy === 'noeviction'
      ? null
      : `maxmemory-policy is ${evictionPolicy}, not noeviction. A full Redis drops rings`;
  return { name: `Redis ${version}, noeviction`, fault };
}

function clockCheck(clockMs: number): Check {
  const far = Math.abs(clockMs) > CLOCK_TOLERANCE_MS;
  return {
    name: `clock: MongoDB is ${Math.abs(clockMs)} ms ${clockMs < 0 ? 'behind' : 'ahead of'} this machine`,
    fault: far ? 'more than a minute. Tokens of other issuers are refused, and logs mislead' : null,
  };
}

/** Returns a check that never fails: two versions run side by side while a deployment rolls. */
function versionCheck(versions: readonly string[]): Check {
  const text = versions.length === 0 ? 'no live worker' : `live workers run ${versions.join(' and ')}`;
  return { name: `versions: ${text}`, fault: null };
}

function lineOf({ name, fault, breaks }: Check & Partial<Finding>): string {
  if (fault === null) return `ok       ${name}`;
  return `missing  ${name}: ${fault}${breaks === undefined ? '' : `. ${breaks}`}`;
}
