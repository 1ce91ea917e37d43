import { UnfitServer } from '#infra/mongo/probe/probe.ts';
import { type Distribution, type DistributionStep, readDistribution } from '#infra/mongo/schema/distribution.ts';
import { MigrationRefused, migrate } from '#infra/mongo/schema/migrate.ts';
import { type SchemaStatus, schemaStatus } from '#infra/mongo/schema/schema-status.ts';
import type { CliCommands, Flags, Operator } from './operator.ts';
import { EXIT, print, Refused, table, WrongUsage } from './output.ts';

/** Commands that change the schema. They run without a time limit of the socket, because building an index may take long. */
export const SCHEMA_COMMANDS: CliCommands = {
  migrate: {
    summary: 'migrate the schema, as the release process does',
    details: `--status, --dry-run and --shard change nothing. --shard prints the lines for mongosh that put the collections onto the
shards of a cluster, and checks their result when it is called again.`,
    options: ['status', 'dry-run', 'shard', 'json'],
    examples: ['migrate --status', 'migrate', 'migrate --shard'],
    run: migrateOrShard,
  },
};

async function migrateOrShard(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const modes = [flags.status, flags.dryRun, flags.shard].filter((flag) => flag === true);
  if (modes.length > 1) throw new WrongUsage('pass only one of --status, --dry-run and --shard');
  if (flags.status === true) return status(operator, flags);
  if (flags.dryRun === true) return dryRun(operator, flags);
  if (flags.shard === true) return shard(operator, flags);
  const report = await migrate(operator.mongo, operator.note).catch((error: unknown) => {
    const isRefusal = error instanceof UnfitServer || error instanceof MigrationRefused;
    throw isRefusal ? new Refused(error.message) : error;
  });
  return print(operator, flags, report, () => [`schema is at version ${report.to}`]);
}

/** Prints the state of the schema. Returns 1 if a process of this code would not start on this database. */
async function status(operator: Operator, flags: Flags): Promise<number> {
  const found = await schemaStatus(operator.mongo, operator.now());
  print(operator, flags, found, () => [
    `schema is at version ${found.version}; this code needs ${found.needed}`,
    ...(found.running ? ['a migration is running'] : []),
    ...planOf(found),
    ...found.faults,
  ]);
  return found.faults.length === 0 ? EXIT.done : EXIT.failed;
}

async function dryRun(operator: Operator, flags: Flags): Promise<number> {
  const found = await schemaStatus(operator.mongo, operator.now());
  const plan = planOf(found);
  return print(operator, flags, found, () => [
    'dry run: nothing was changed',
    ...(plan.length === 0 ? ['nothing to do'] : plan),
  ]);
}

function planOf({ pending, missingIndexes }: SchemaStatus): string[] {
  return [
    ...pending.map(({ version, name }) => `would migrate to ${version}: ${name}`),
    ...missingIndexes.map((index) => `would create the index ${index}`),
  ];
}

/** Prints how far the move onto shards has come, and what is left as lines for `mongosh`. Returns 1 if nothing may be moved now. */
async function shard(operator: Operator, flags: Flags): Promise<number> {
  const found = await readDistribution(operator.mongo, operator.now());
  print(operator, flags, found, () => distributionLines(found));
  for (const fault of found.faults) operator.fail(fault);
  return found.faults.length === 0 ? EXIT.done : EXIT.failed;
}

const WHAT: Readonly<Record<DistributionStep['state'], string>> = {
  whole: 'to be sharded',
  sharded: 'sharded',
  other: 'sharded by another key',
};

function distributionLines({ steps, faults, lines }: Distribution): string[] {
  const left = lines.length > 0 ? ['// run these lines in mongosh, and then this command again:', ...lines] : [];
  const isDone = lines.length === 0 && faults.length === 0;
  const rest = isDone ? ['every collection is on the shards as declared'] : left;
  return [
    ...table(steps, {
      collection: ({ collection }) => collection,
      'hashed key': ({ key }) => Object.keys(key).join(', '),
      documents: ({ documents }) => documents,
      state: ({ state }) => WHAT[state],
    }),
    ...(rest.length === 0 ? [] : ['', ...rest]),
  ];
}
