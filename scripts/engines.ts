import { MongoClient } from 'mongodb';
import { runChecks } from '#scripts/checks/run-checks.ts';
import { readRecordings, saveRecording, withRun } from '#scripts/engines/recordings.ts';
import type { EngineName } from '#scripts/services/mongodb.ts';
import { startThrowAwayServices } from '#scripts/services/throw-away.ts';

/**
 * `npm run engines [-- part of a path …]`: runs the tests and records which features of MongoDB product code uses on the engine that
 * the environment selects. The whole suite replaces the recording of that engine; parts add to it.
 */
const filters = process.argv.slice(2);
const engine = await engineInUse();
console.log(`recording on ${engine.name} ${engine.version}`);
const code = await runChecks({
  filters,
  takeUses(uses, { passed, failed }) {
    const suite = filters.length === 0 ? { passed, failed } : null;
    const before = readRecordings().get(engine.name);
    saveRecording(engine.name, withRun(before, { version: engine.version, suite, uses }));
    console.log('recorded; `npm run generate` writes docs/engines.md');
  },
});
process.exit(code);

/** Identifies the server that tests use: that of MONGODB_URL, or a temporary one like those of the lanes. */
async function engineInUse(): Promise<{ name: EngineName; version: string }> {
  const { MONGODB_URL: given } = process.env;
  const services = given ? undefined : await startThrowAwayServices({ redis: false, say: console.log });
  const client = new MongoClient(services?.mongodb?.url ?? given ?? '');
  try {
    const info = await client.db('admin').command({ buildInfo: 1 });
    if (info.secantusVersion === undefined) return { name: 'mongod', version: info.version };
    const name = info.buildEnvironment?.cc === 'rustc' ? 'rust' : 'python';
    return { name, version: `SecantusDB ${info.secantusVersion}` };
  } finally {
    await client.close();
    await services?.close();
  }
}
