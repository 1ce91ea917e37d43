import { Console } from 'node:console';
import { userInfo } from 'node:os';
import path from 'node:path';
import type { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { configOrExit } from '#infra/config/config.ts';
import { openLog } from '#infra/log/log.ts';
import { openMongo, openReleaseMongo } from '#infra/mongo/connect.ts';
import { outageInWords } from '#infra/mongo/faults.ts';
import { logActs } from '#infra/mongo/operator-audit.ts';
import { openServerClock } from '#infra/mongo/server-clock.ts';
import { publishChange } from '#infra/redis/change-feed.ts';
import { ACCOUNT_COMMANDS } from '#scripts/examhall/account-commands.ts';
import { CLUSTER_COMMANDS, DOCTOR_COMMANDS, STATUS_COMMANDS } from '#scripts/examhall/cluster-commands.ts';
import { DEAD_COMMANDS } from '#scripts/examhall/dead-commands.ts';
import { EVIDENCE_COMMANDS } from '#scripts/examhall/evidence-commands.ts';
import type { CliCommands, Flags, Operator, SecretInput } from '#scripts/examhall/operator.ts';
import { EXIT, Refused, WrongUsage } from '#scripts/examhall/output.ts';
import { PERSON_COMMANDS } from '#scripts/examhall/person-commands.ts';
import { readCommandLine } from '#scripts/examhall/program.ts';
import { READING_COMMANDS } from '#scripts/examhall/reading-commands.ts';
import { SCHEMA_COMMANDS } from '#scripts/examhall/schema-commands.ts';
import { openProgress } from '#scripts/start/progress.ts';
import { rememberedStores } from '#scripts/start/services/port.ts';
import { SECOND } from '#shared/kernel/time.ts';

export const ALL_COMMANDS: CliCommands = {
  ...STATUS_COMMANDS,
  ...READING_COMMANDS,
  ...CLUSTER_COMMANDS,
  ...DEAD_COMMANDS,
  ...EVIDENCE_COMMANDS,
  ...DOCTOR_COMMANDS,
  ...SCHEMA_COMMANDS,
  ...ACCOUNT_COMMANDS,
  ...PERSON_COMMANDS,
};

/** The environment and the streams of the process, or those of a test. */
export interface Surroundings {
  readonly env: NodeJS.ProcessEnv;
  readonly input: SecretInput;
  readonly output: Writable & { isTTY?: boolean };
  readonly errors: Writable & { isTTY?: boolean };
  /** Aborted when a command that repeats must end. */
  readonly interrupted: AbortSignal;
}

/** Runs one command line. Returns its exit code. */
export async function runCommandLine(args: readonly string[], around: Surroundings): Promise<number> {
  const { env, input, output, errors } = around;
  const line = readCommandLine(args, ALL_COMMANDS, {
    out: (text) => output.write(text),
    err: (text) => errors.write(text),
  });
  if (typeof line === 'number') return line;
  const { name, command, words, flags } = line;
  // A console ignores a pipe that its reader has closed.
  const screen = new Console(output, errors);
  const fail = (fault: string) => screen.error(`error: ${fault}`);
  const config = configOrExit(withLocalCluster(env), 'examhall');
  const open = name in SCHEMA_COMMANDS ? openReleaseMongo : openMongo;
  const mongo = open({ ...config.mongodb, appName: 'examhall-cli' });
  const clock = openServerClock(mongo);
  const work = async () => {
    await clock.measure();
    const operator: Operator = {
      mongo,
      now: clock.now,
      name: flags.operator ?? ownName(env),
      say: (line) => screen.log(line),
      note: (line) => screen.error(line),
      fail,
      logAct: logActsTo(errors, env),
      async endStreams(accountId) {
        const isSent = await publishChange({ redisUrl: config.redis.url, of: 'accounts' }, accountId);
        if (!isSent)
          screen.error('note: Redis does not answer; open live streams of the account end within ten minutes');
      },
      input,
      settings: config.auth,
      output,
      commandAttempts: config.worker.maxAttempts,
      redisUrl: config.redis.url,
      interrupted: around.interrupted,
      openProgress: () => openProgress(errors),
    };
    return repeated(around, flags, () => codeOf(fail, () => command.run(operator, words, flags)));
  };
  try {
    return await codeOf(fail, work);
  } finally {
    clock.stop();
    await mongo.close();
  }
}

/** Returns the exit code of `work`. Prints a refusal, or an outage of MongoDB, as an error. */
export async function codeOf(fail: (fault: string) => void, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    const fault = error instanceof Refused ? error.message : outageInWords(error);
    if (fault === undefined) throw error;
    fail(fault);
    return error instanceof Refused ? error.code : EXIT.failed;
  }
}

const DEFAULT_SECONDS = 2;
/** Moves a terminal's cursor to the top left corner and clears the screen. */
const CLEAR = '\u001B[H\u001B[J';

/**
 * Runs `print` once, or with `--watch` at its interval until the operator interrupts it. On a terminal, each print replaces the one before
 * it. An outage of MongoDB ends nothing, because the operator watches for its end. Returns the exit code of the last print.
 */
async function repeated(
  { output, interrupted }: Surroundings,
  { watch }: Flags,
  print: () => Promise<number>,
): Promise<number> {
  if (watch === undefined) return print();
  const seconds = watch === true ? DEFAULT_SECONDS : Number(watch);
  if (!(seconds >= 0.1 && seconds <= 3_600))
    throw new WrongUsage('--watch must be a number of seconds from 0.1 to 3600');
  for (;;) {
    if (output.isTTY === true) output.write(CLEAR);
    const code = await print();
    try {
      await delay(seconds * SECOND, undefined, { signal: interrupted });
    } catch {
      return code;
    }
  }
}

/**
 * Returns the environment with the addresses of the stores of the cluster that `npm start` has started in this checkout, so that an operator's first
 * commands need no configuration. Returns `env` unchanged in production, if it names a MongoDB, or if no cluster was started here.
 */
function withLocalCluster(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const isNamed = env.MONGODB_URL !== undefined || env.MONGODB_URL_FILE !== undefined;
  if (isNamed || env.NODE_ENV === 'production') return env;
  const { MONGODB_URL, REDIS_URL } = rememberedStores(
    path.resolve(import.meta.dirname, '../..', env.DATA_DIR ?? '.data'),
  );
  if (MONGODB_URL === undefined) return env;
  return { ...(REDIS_URL === undefined ? {} : { REDIS_URL }), ...env, MONGODB_URL };
}

/** Returns what logs the rows of the audit: as JSON for a collector, and as a short line on the terminal of a developer. */
function logActsTo(errors: Surroundings['errors'], { NODE_ENV }: NodeJS.ProcessEnv): Operator['logAct'] {
  if (errors.isTTY !== true || NODE_ENV === 'production')
    return logActs(openLog({ level: 'info', name: 'examhall', destination: errors }).log);
  return ({ seq, action, operator }) => errors.write(`audit ${seq}: ${action} by ${operator}\n`);
}

/** Returns the operator's name for the audit, `unknown` if the system has none: a container often has neither USER nor a login name. */
function ownName(env: NodeJS.ProcessEnv): string {
  try {
    return env.USER || userInfo().username;
  } catch {
    return 'unknown';
  }
}

if (import.meta.main) {
  const { env, stdin: input, stdout: output, stderr: errors } = process;
  const interrupt = new AbortController();
  const around = { env, input, output, errors, interrupted: interrupt.signal };
  // Only a command that repeats or follows is ended this way. The default is to end any other one at once.
  if (process.argv.some((word) => word.startsWith('--watch') || word === '--all'))
    process.once('SIGINT', () => interrupt.abort());
  process.exitCode = await runCommandLine(process.argv.slice(2), around);
}
