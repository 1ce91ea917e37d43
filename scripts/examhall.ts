import { userInfo } from 'node:os';
import { parseArgs } from 'node:util';
import { configOrExit } from '#infra/config/config.ts';
import { openMongo } from '#infra/mongo/connect.ts';
import { outageInWords } from '#infra/mongo/faults.ts';
import { openServerClock } from '#infra/mongo/server-clock.ts';
import { ACCOUNT_COMMANDS } from '#scripts/examhall/account-commands.ts';
import { COMMANDS } from '#scripts/examhall/commands.ts';
import { DOCTOR_COMMANDS } from '#scripts/examhall/doctor.ts';
import { withLocalCluster } from '#scripts/examhall/local-cluster.ts';
import type { CliCommand, Operator } from '#scripts/examhall/operator.ts';

const USAGE = `examhall: what an operator does by hand

  examhall dead list [--queue Q] [--json]                      dead letters, grouped by cause
  examhall dead show ID                                        one command, whole
  examhall dead replay (ID ... | --queue Q [--cause TEXT]) --reason TEXT [--limit 100] [--yes]
                                                               run again, once per death; audited. Without --yes it only says what it would do
  examhall workers [--json]                                    live worker processes and what they are at
  examhall queues [--json]                                     waiting, running and dead commands, and the age of the oldest
  examhall audit [--limit 20]                                  what operators did, newest first
  examhall doctor [--json]                                     whether MongoDB does what examhall needs, and has its schema

  examhall account show EMAIL                                  status, live sessions, failed tries, security events
  examhall account make-admin EMAIL --reason TEXT              nobody can register as one
  examhall account status EMAIL ACTIVE|SUSPENDED|DELETED --reason TEXT
                                                               SUSPENDED refuses, DELETED ends the sessions and is for good
  examhall account set-password EMAIL --reason TEXT [< FILE]   typed twice and not shown, or read from a file; ends the sessions, clears failed tries
  examhall account unlock EMAIL --reason TEXT                  forgets failed tries, of an unknown e-mail too
  examhall account end-sessions EMAIL --reason TEXT
  examhall account import FILE.jsonl --reason TEXT [--yes]     one account a line: email, fullName, role, passwordHash (plain bcrypt),
                                                               phone?, legacyId?. Without --yes it only checks the file

  --reason TEXT     at least 5 characters, for the audit
  --operator NAME   who you are, for the audit (default: $USER, else your login name)
`;

const ALL = new Map<string, CliCommand>(Object.entries({ ...COMMANDS, ...DOCTOR_COMMANDS, ...ACCOUNT_COMMANDS }));
/** Words that a second one follows. */
const GROUPS = new Set(['dead', 'account']);

/** Exit codes: 0 done, 1 nothing was done or something failed, 2 the words of the call are off. */
async function main(args: string[]): Promise<number> {
  const parsed = parse(args);
  const words = parsed?.positionals ?? [];
  const name = words.slice(0, GROUPS.has(words[0] ?? '') ? 2 : 1).join(' ');
  const command = ALL.get(name);
  if (parsed === null || parsed.values.help === true || command === undefined) {
    console.log(USAGE);
    if (parsed?.values.help !== true && words.length > 0) console.error(`examhall knows no "${words.join(' ')}"`);
    return parsed?.values.help === true ? 0 : 2;
  }
  const config = configOrExit(withLocalCluster(process.env));
  const mongo = openMongo({ ...config.mongodb, appName: 'examhall-cli' });
  const clock = openServerClock(mongo);
  try {
    await clock.measure();
    const operator: Operator = {
      mongo,
      now: clock.now,
      name: parsed.values.operator ?? ownName(),
      say: (line) => console.log(line),
      input: process.stdin,
      settings: config.auth,
    };
    return await command(operator, words.slice(name.split(' ').length), parsed.values);
  } catch (error) {
    const outage = outageInWords(error);
    if (outage === undefined) throw error;
    console.error(outage);
    return 1;
  } finally {
    clock.stop();
    await mongo.close();
  }
}

/** A container often has no USER; the audit wants a name all the same. */
function ownName(): string {
  try {
    return process.env.USER || userInfo().username;
  } catch {
    return 'unknown';
  }
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        help: { type: 'boolean', short: 'h' },
        json: { type: 'boolean' },
        yes: { type: 'boolean' },
        queue: { type: 'string' },
        cause: { type: 'string' },
        reason: { type: 'string' },
        limit: { type: 'string' },
        operator: { type: 'string' },
      },
    });
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return null;
  }
}

process.exitCode = await main(process.argv.slice(2));
