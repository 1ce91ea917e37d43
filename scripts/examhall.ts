import { Console } from 'node:console';
import { userInfo } from 'node:os';
import type { Writable } from 'node:stream';
import { parseArgs } from 'node:util';
import { configOrExit } from '#infra/config/config.ts';
import { openLog } from '#infra/log/log.ts';
import { openMongo, openReleaseMongo } from '#infra/mongo/connect.ts';
import { outageInWords } from '#infra/mongo/faults.ts';
import { openServerClock } from '#infra/mongo/server-clock.ts';
import { publishChange } from '#infra/redis/change-feed.ts';
import { redisState } from '#infra/redis/connection.ts';
import { ACCOUNT_COMMANDS } from '#scripts/examhall/account-commands.ts';
import { COMMANDS } from '#scripts/examhall/commands.ts';
import { DOCTOR_COMMANDS } from '#scripts/examhall/doctor.ts';
import { EVIDENCE_COMMANDS } from '#scripts/examhall/evidence-commands.ts';
import { withLocalCluster } from '#scripts/examhall/local-cluster.ts';
import type { CliCommand, Operator } from '#scripts/examhall/operator.ts';
import { PERSON_COMMANDS } from '#scripts/examhall/person-commands.ts';
import type { SecretInput } from '#scripts/examhall/read-secret.ts';
import { SCHEMA_COMMANDS } from '#scripts/examhall/schema-commands.ts';
import { TRACE_COMMANDS } from '#scripts/examhall/trace-command.ts';

const USAGE = `examhall: operator commands

  examhall dead list [--queue QUEUE] [--json]                  dead letters, grouped by cause
  examhall dead show ID                                        one command as JSON
  examhall dead replay (ID ... | --queue QUEUE [--cause TEXT]) --reason TEXT [--limit 100] [--charge-superseded] [--yes]
                                                               replay dead commands, once per death; audited. Without --yes: a dry run.
                                                               Skips a settlement whose request was charged anew, unless the flag is set
  examhall trace (ID | student:ID | exam:ID | user:ID) [--limit 200] [--json]
                                                               one timeline with the reasons for what did not happen; reads of a person
                                                               are audited
  examhall workers [--json]                                    live worker processes and their current work
  examhall queues [--json]                                     waiting, running and dead commands, and the age of the oldest due one
  examhall audit [--limit 20] [--json]                         operator actions, newest first
  examhall audit verify [--from SEQ:HASH] [--json]             check the chain of the audit, from row 1 or a noted row; prints its head
  examhall events [--address ADDRESS] [--limit 20] [--json]    security events of all accounts, or of an address, newest first
  examhall doctor [--json]                                     check MongoDB's behaviour and the schema
  examhall migrate [--json]                                    migrate the schema, as the release process does
  examhall migrate --shard [--yes] [--json]                    shard the collections of a sharded cluster. Without --yes: a dry run

  examhall account show EMAIL [--reason TEXT]                  audited; status, live sessions, failed login attempts, security events
  examhall account make-admin EMAIL --reason TEXT              grant ADMIN, which registration never grants
  examhall account status EMAIL ACTIVE|SUSPENDED|DELETED --reason TEXT
                                                               SUSPENDED refuses requests; DELETED ends the sessions and cannot be undone
  examhall account set-password EMAIL --reason TEXT [< FILE]   prompt twice without echo, or read a file; ends the sessions, clears failed
                                                               login attempts
  examhall account unlock EMAIL --reason TEXT                  clear failed login attempts; the e-mail needs no account
  examhall account end-sessions EMAIL --reason TEXT            end all sessions of an account
  examhall account import FILE.jsonl --reason TEXT [--allow-admin] [--yes]
                                                               one account per line: email, fullName, role, passwordHash (plain bcrypt),
                                                               phone?, legacyId?. Role ADMIN needs --allow-admin. Without --yes: only check
                                                               the file

  examhall person show ID --reason TEXT                        count the rows about a person, by collection; shows no content
  examhall person export ID --reason TEXT [--out FILE]         everything stored about a person, as one JSON document
  examhall person erase ID --reason TEXT [--end-open-attempts] [--yes]
                                                               delete or pseudonymise it and print a receipt; cannot be undone. An
                                                               interrupted erasure goes on when the command is repeated. Without --yes: a dry run

  --reason TEXT     at least 5 characters, for the audit
  --operator NAME   your name, for the audit (default: $USER, otherwise the login name)
`;

const ALL = new Map<string, CliCommand>(
  Object.entries({
    ...COMMANDS,
    ...TRACE_COMMANDS,
    ...DOCTOR_COMMANDS,
    ...SCHEMA_COMMANDS,
    ...EVIDENCE_COMMANDS,
    ...ACCOUNT_COMMANDS,
    ...PERSON_COMMANDS,
  }),
);
/** First words of commands that consist of two words, or may do so. */
const GROUPS = new Set(['dead', 'account', 'audit', 'person']);

/** The environment and the streams of the process, or those of a test. */
export interface Surroundings {
  readonly env: NodeJS.ProcessEnv;
  readonly input: SecretInput;
  readonly output: Writable;
  readonly errors: Writable;
}

/** Runs one command. Returns the exit code: 0 done, 1 nothing was done or something failed, 2 the arguments are invalid. */
export async function runCommandLine(args: readonly string[], around: Surroundings): Promise<number> {
  const { env, input, output, errors } = around;
  // A console ignores a pipe that its reader has closed.
  const screen = new Console(output, errors);
  const fail = (fault: string) => screen.error(`error: ${fault}`);
  const parsed = parse(args, fail);
  const words = parsed?.positionals ?? [];
  const name = words.slice(0, GROUPS.has(words[0] ?? '') ? 2 : 1).join(' ');
  const command = ALL.get(name);
  if (parsed?.values.help === true) {
    screen.log(USAGE);
    return 0;
  }
  if (parsed === null || command === undefined) {
    if (words.length > 0) fail(`unknown command "${words.join(' ')}"`);
    screen.error(USAGE);
    return 2;
  }
  const config = configOrExit(withLocalCluster(env));
  const { log } = openLog({ level: 'info', name: 'examhall', destination: errors });
  const open = name in SCHEMA_COMMANDS ? openReleaseMongo : openMongo;
  const mongo = open({ ...config.mongodb, appName: 'examhall-cli' });
  const clock = openServerClock(mongo);
  try {
    await clock.measure();
    const operator: Operator = {
      mongo,
      now: clock.now,
      name: parsed.values.operator ?? ownName(env),
      say: (line) => screen.log(line),
      note: (line) => screen.error(line),
      fail,
      logAct: (row) => log.info({ ...row }, 'operator act'),
      async endStreams(accountId) {
        const isSent = await publishChange({ redisUrl: config.redis.url, of: 'accounts' }, accountId);
        if (!isSent)
          screen.error('note: Redis does not answer; open live streams of the account end within ten minutes');
      },
      redisState: () => redisState(config.redis.url),
      input,
      settings: config.auth,
      output,
      commandAttempts: config.worker.maxAttempts,
    };
    return await command(operator, words.slice(name.split(' ').length), parsed.values);
  } catch (error) {
    const outage = outageInWords(error);
    if (outage === undefined) throw error;
    fail(outage);
    return 1;
  } finally {
    clock.stop();
    await mongo.close();
  }
}

/** Returns the operator's name for the audit, `unknown` if the system has none: a container often has neither USER nor a login name. */
function ownName(env: NodeJS.ProcessEnv): string {
  try {
    return env.USER || userInfo().username;
  } catch {
    return 'unknown';
  }
}

/** Returns the parsed arguments. If they are invalid, prints the fault and returns null. */
function parse(args: readonly string[], fail: (fault: string) => void) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        help: { type: 'boolean', short: 'h' },
        json: { type: 'boolean' },
        yes: { type: 'boolean' },
        shard: { type: 'boolean' },
        'allow-admin': { type: 'boolean' },
        'charge-superseded': { type: 'boolean' },
        'end-open-attempts': { type: 'boolean' },
        out: { type: 'string' },
        queue: { type: 'string' },
        cause: { type: 'string' },
        reason: { type: 'string' },
        limit: { type: 'string' },
        from: { type: 'string' },
        address: { type: 'string' },
        operator: { type: 'string' },
      },
    });
  } catch (error) {
    fail(error instanceof Error ? error.message : String(error));
    return null;
  }
}

if (import.meta.main) {
  const { env, stdin: input, stdout: output, stderr: errors } = process;
  process.exitCode = await runCommandLine(process.argv.slice(2), { env, input, output, errors });
}
