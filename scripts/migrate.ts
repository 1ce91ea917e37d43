import { configOrExit } from '#infra/config/config.ts';
import { openReleaseMongo } from '#infra/mongo/connect.ts';
import { outageInWords } from '#infra/mongo/faults.ts';
import { UnfitServer } from '#infra/mongo/probe/probe.ts';
import { MigrationRefused, migrate } from '#infra/mongo/schema/migrate.ts';
import { EXIT } from '#scripts/examhall/output.ts';

/** `release:` of the Procfile: creates the indexes and migrates the data that this version needs. Safe to repeat and to run twice at once. */
const [argument] = process.argv.slice(2);
if (argument !== undefined) {
  // A flag that is ignored would migrate a database of which the operator only wanted to know the state.
  console.error(`error: unknown argument ${argument}; \`examhall migrate\` has --status and --dry-run`);
  process.exit(EXIT.usage);
}
const config = configOrExit(process.env, 'release');
for (const warning of config.warnings) console.error(`warning: ${warning}`);
const mongo = openReleaseMongo({ ...config.mongodb, appName: 'examhall-release' });
try {
  const report = await migrate(mongo, (line) => console.log(line));
  console.log(`schema is at version ${report.to}${report.applied.length === 0 ? ' (nothing to do)' : ''}`);
} catch (error) {
  const isExplained = error instanceof UnfitServer || error instanceof MigrationRefused;
  const reason = isExplained ? error.message : outageInWords(error);
  if (reason === undefined) throw error;
  console.error(`error: ${reason}`);
  process.exitCode = 1;
} finally {
  await mongo.close();
}
