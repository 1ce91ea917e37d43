import { UnfitServer } from '#infra/mongo/probe/probe.ts';
import { isRouter } from '#infra/mongo/probe/server.ts';
import {
  type DistributionStep,
  distribute,
  NotDistributable,
  planDistribution,
} from '#infra/mongo/schema/distribute.ts';
import { MigrationRefused, migrate } from '#infra/mongo/schema/migrate.ts';
import { type SchemaStatus, schemaStatus } from '#infra/mongo/schema/schema-status.ts';
import { EXIT } from './exit-codes.ts';
import type { CliCommands, Flags, Operator } from './operator.ts';
import { print, refuse, table } from './output.ts';

/** Commands that change the schema. They run without a time limit of the socket, because building an index may take long. */
export const SCHEMA_COMMANDS: CliCommands = {
  migrate: {
    summary: 'migrate the schema, as the release process does',
    details: `--status and --dry-run change nothing. --shard shards the collections of a sharded cluster instead, and without --yes
says only what it would do.`,
    options: ['status', 'dry-run', 'shard', 'yes', 'json'],
    examples: ['migrate --status', 'migrate', 'migrate --shard --yes'],
    run: migrateOrShard,
  },
};

async function migrateOrShard(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const modes = [flags.status, flags.dryRun, flags.shard].filter((flag) => flag === true);
  if (modes.length > 1) return refuse(operator, 'pass only one of --status, --dry-run and --shard');
  if (flags.status === true) return status(operator, flags);
  if (flags.dryRun === true) return dryRun(operator, flags);
  if (flags.shard === true) return shard(operator, flags);
  try {
    const report = await migrate(operator.mongo, operator.note);
    print(operator, flags, report, () => `schema is at version ${report.to}`);
    return EXIT.done;
  } catch (error) {
    if (!(error instanceof UnfitServer || error instanceof MigrationRefused)) throw error;
    operator.fail(error.message);
    return EXIT.failed;
  }
}

/** Prints the state of the schema. Returns 1 if a process of this code would not start on this database. */
async function status(operator: Operator, flags: Flags): Promise<number> {
  const found = await schemaStatus(operator.mongo, operator.now());
  print(operator, flags, found, () =>
    [
      `schema is at version ${found.version}; this code needs ${found.needed}`,
      ...(found.running ? ['a migration is running'] : []),
      ...planOf(found),
      ...found.faults,
    ].join('\n'),
  );
  return found.faults.length === 0 ? EXIT.done : EXIT.failed;
}

async function dryRun(operator: Operator, flags: Flags): Promise<number> {
  const found = await schemaStatus(operator.mongo, operator.now());
  const plan = planOf(found);
  print(operator, flags, found, () =>
    ['dry run: nothing was changed', ...(plan.length === 0 ? ['nothing to do'] : plan)].join('\n'),
  );
  return EXIT.done;
}

function planOf({ pending, missingIndexes }: SchemaStatus): string[] {
  return [
    ...pending.map(({ version, name }) => `would migrate to ${version}: ${name}`),
    ...missingIndexes.map((index) => `would create the index ${index}`),
  ];
}

async function shard(operator: Operator, flags: Flags): Promise<number> {
  const { mongo, note } = operator;
  const router = await isRouter(mongo);
  try {
    if (flags.yes === true) await distribute(mongo, { now: operator.now(), report: note });
    const steps = await planDistribution(mongo);
    print(operator, flags, { router, steps }, () => planText(steps));
  } catch (error) {
    if (!(error instanceof NotDistributable)) throw error;
    operator.fail(`${error.message}; nothing was changed`);
    return EXIT.failed;
  }
  if (flags.yes !== true)
    note(
      router
        ? 'dry run: nothing was changed. --yes carries it out'
        : 'dry run: this server is no router (mongos) of a sharded cluster, and --yes would refuse it',
    );
  return EXIT.done;
}

const WHAT: Readonly<Record<DistributionStep['state'], string>> = {
  whole: 'to be sharded',
  sharded: 'sharded',
  other: 'sharded by another key: refused',
};

function planText(steps: readonly DistributionStep[]): string {
  const rows = steps.map(({ collection, key, state, foreign, documents }) => [
    collection,
    Object.keys(key).join(', '),
    String(documents),
    [WHAT[state], ...(foreign.length > 0 ? [`refused because of the unique index ${foreign.join(', ')}`] : [])].join(
      '; ',
    ),
  ]);
  const lines = steps.flatMap(({ commands }) => commands);
  return [
    table(['collection', 'hashed key', 'documents', 'state'], rows),
    ...(lines.length === 0
      ? []
      : ['', '// the same for mongosh, without the checks and the lease of --yes:', ...lines]),
  ].join('\n');
}
