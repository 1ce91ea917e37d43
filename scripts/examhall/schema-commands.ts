import { UnfitServer } from '#infra/mongo/probe/probe.ts';
import { isRouter } from '#infra/mongo/probe/server.ts';
import {
  type DistributionStep,
  distribute,
  NotDistributable,
  planDistribution,
} from '#infra/mongo/schema/distribute.ts';
import { migrate } from '#infra/mongo/schema/migrate.ts';
import type { CliCommand, Flags, Operator } from './operator.ts';
import { print, table } from './output.ts';

/** Commands that change the schema. They run without a time limit of the socket, because building an index may take long. */
export const SCHEMA_COMMANDS: Readonly<Record<string, CliCommand>> = { migrate: migrateOrShard };

/** Migrates as `release` does. With `--shard`, distributes the collections instead, and shows only the plan unless `--yes` is set. */
async function migrateOrShard(operator: Operator, words: string[], flags: Flags): Promise<number> {
  if (words.length > 0) {
    operator.fail(`migrate takes no argument: ${words.join(' ')}`);
    return 2;
  }
  if (flags.shard === true) return shard(operator, flags);
  try {
    const report = await migrate(operator.mongo, operator.note);
    print(operator, flags, report, () => `schema is at version ${report.to}`);
    return 0;
  } catch (error) {
    if (!(error instanceof UnfitServer)) throw error;
    operator.fail(error.message);
    return 1;
  }
}

async function shard(operator: Operator, flags: Flags): Promise<number> {
  const { mongo, note } = operator;
  const router = await isRouter(mongo);
  if (flags.yes !== true) {
    const steps = await planDistribution(mongo);
    print(operator, flags, { router, steps }, () => planText(steps));
    note(
      router
        ? 'dry run: nothing was changed. --yes carries it out'
        : 'dry run: this server is no router (mongos) of a sharded cluster, and --yes would refuse it',
    );
    return 0;
  }
  try {
    await distribute(mongo, { now: operator.now(), report: note });
  } catch (error) {
    if (!(error instanceof NotDistributable)) throw error;
    operator.fail(`${error.message}; nothing was changed`);
    return 1;
  }
  const after = await planDistribution(mongo);
  print(operator, flags, { router, steps: after }, () => planText(after));
  return 0;
}

const WHAT: Readonly<Record<DistributionStep['state'], string>> = {
  whole: 'to be sharded',
  sharded: 'sharded',
  other: 'sharded by another key: refused',
};

function planText(steps: readonly DistributionStep[]): string {
  const rows = steps.map(({ collection, key, state, drops, foreign, documents }) => [
    collection,
    Object.keys(key).join(', '),
    String(documents),
    [
      WHAT[state],
      ...(state === 'whole' && drops.length > 0 ? [`drops ${drops.join(', ')}`] : []),
      ...(foreign.length > 0 ? [`refused because of the unique index ${foreign.join(', ')}`] : []),
    ].join('; '),
  ]);
  return table(['collection', 'hashed key', 'documents', 'state'], rows);
}
