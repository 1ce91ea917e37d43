import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { onStopSignals } from '#scripts/start/supervisor/processes.ts';
import { isJsonObject, membersOf } from '#shared/kernel/json.ts';
import { httpUrl, nullIfTaken, runCommand, TERMINAL, type Terminal, wholeNumber } from './command-line.ts';
import { openStandIns, type StandInOptions, type StandIns } from './neighbours/open-stand-ins.ts';
import { mathsPaper } from './school/paper.ts';

const USAGE = `npm run neighbours -- [options]                    serves a stand-in for each service that examhall calls, until Ctrl-C
npm run neighbours -- fail NAME MEMBER=VALUE…     begins a failure of a running stand-in; without members, ends it
npm run neighbours -- show                        prints the running stand-ins, their failures and the statuses of their replies

  --port P       port of the stand-ins on 127.0.0.1 (default 3999); the next one is the port of the mail server
  --forward URL  passes notices on to the notification service at this URL; by default the stand-in stores them itself
  --balance N    first balance of every organization at the wallet, in credits (default 10000)

Members of a failure: answer=503, refuse=422, drop, lose, delayMs=5000, retryAfter=7, times=3, every=25, only=/transactions.
Of the mail server: fail mail answer=550 at=recipient only=hs001@; at is connection, sign-in, sender, recipient (default) or text.
The stand-ins require the tokens that a cluster with the same environment sends: INTERNAL_SERVICE_TOKEN (default dev-internal-token),
and for notices NOTIFICATION_TOKEN_<SENDER> or NOTIFICATION_INTERNAL_SERVICE_TOKEN.
Exit code: 0 done; 1 the port is in use, or the failure is refused; 64 an invalid option.
`;

interface Around extends Terminal {
  env: NodeJS.ProcessEnv;
  /** Ends the stand-ins. */
  signal: AbortSignal;
}

/** `npm run neighbours`: serves the stand-ins until the signal aborts, or acts on running ones. Returns the exit code. */
export function runNeighbours(args: readonly string[], around: Around): Promise<number> {
  const run = (options: Options) => {
    const [act, name = '', ...members] = options.act;
    if (act === undefined) return serve(options, around);
    const control = `http://127.0.0.1:${options.port}/_control`;
    return act === 'show' ? show(control, around) : fail(`${control}/${encodeURIComponent(name)}`, members, around);
  };
  return runCommand(USAGE, args, around, { read: readOptions, run });
}

type Options = ReturnType<typeof readOptions>;

function readOptions(args: string[]) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      port: { type: 'string', default: '3999' },
      forward: { type: 'string' },
      balance: { type: 'string', default: '10000' },
    },
  });
  const [act, ...words] = positionals;
  const isAct = act === undefined || (act === 'fail' && words.length > 0) || (act === 'show' && words.length === 0);
  if (!isAct) throw new Error('pass nothing, fail NAME or show');
  return {
    act: positionals,
    port: wholeNumber('port', values.port, [0, 65_534]),
    balance: wholeNumber('balance', values.balance, [0, Number.MAX_SAFE_INTEGER]),
    forward: values.forward === undefined ? null : httpUrl('forward', values.forward),
  };
}

async function serve({ port, balance, forward }: Options, { env, signal, print, fail }: Around): Promise<number> {
  const mailPort = port === 0 ? 0 : port + 1;
  const heard: StandInOptions['heard'] = ({ name, status, about }) =>
    print(`${name.padEnd(13)} ${status ?? '---'}  ${about}`);
  const options = { port, env, balance, questions: mathsPaper(), mailPort, heard };
  const standIns = await openStandIns(options).catch(nullIfTaken);
  if (standIns === null) {
    const use = 'is in use, perhaps by other stand-ins or a demo; end those, or pass --port';
    fail(`error: port ${port} or ${mailPort} ${use}`);
    return 1;
  }
  standIns.notification.forwardTo(forward);
  for (const line of introductionOf(standIns, forward)) print(line);
  if (!signal.aborted) await once(signal, 'abort');
  await standIns.close();
  return 0;
}

function introductionOf({ url, env }: StandIns, forward: string | null): string[] {
  const { NOTIFICATION_SERVICE_URL: intake, ...others } = env;
  return [
    `# Stand-ins at ${url}. To point a cluster at them: NEIGHBOURS_URL=${url} npm start, or these variables:`,
    ...Object.entries(others).map(([name, value]) => `${name}=${value}`),
    forward === null
      ? '# Only if the cluster serves no `notification` of its own, because notices then never reach an inbox:'
      : `# Notices are passed on to ${forward}:`,
    `${forward === null ? '# ' : ''}NOTIFICATION_SERVICE_URL=${intake}`,
    '# To script a failure: npm run -s neighbours -- fail profile answer=503; to end it: npm run -s neighbours -- fail profile',
    '# Calls:',
  ];
}

/** Begins a failure of a running neighbour; `words` are its members as `name=value`. Without words it ends the present one. */
async function fail(url: string, words: readonly string[], terminal: Terminal): Promise<number> {
  const name = url.split('/').at(-1);
  const failure = words.length === 0 ? { reset: true } : Object.fromEntries(words.map(memberOf));
  const isDone = await control(url, { method: 'PUT', body: JSON.stringify(failure) }, terminal);
  if (isDone === null) return 1;
  terminal.print(words.length === 0 ? `${name} answers again` : `${name} fails: ${words.join(' ')}`);
  return 0;
}

/** Returns a member of a failure: `answer=503` is a number, `drop=true` or `drop` a truth value, anything else a text. */
function memberOf(word: string): [string, unknown] {
  const [name = '', ...rest] = word.split('=');
  const value = rest.join('=');
  if (rest.length === 0 || value === 'true') return [name, true];
  return [name, /^\d+$/.test(value) ? Number(value) : value];
}

/** Prints the running neighbours with their failures and the statuses of their replies. */
async function show(url: string, terminal: Terminal): Promise<number> {
  const data = await control(url, {}, terminal);
  if (data === null) return 1;
  const pairs = (value: unknown) => Object.entries(membersOf(value)).map(([key, count]) => `${key}=${count}`);
  for (const [name, found] of Object.entries(membersOf(data.neighbours))) {
    const { failure, calls, answered } = membersOf(found);
    const failing = failure === null ? '' : `  fails: ${pairs(failure).join(' ')}`;
    terminal.print(`${name.padEnd(13)}  ${String(calls).padStart(5)} calls  ${pairs(answered).join(' ')}${failing}`);
  }
  return 0;
}

/** Returns the data of a reply of the control interface. If the reply has no data, prints the reason and returns null. */
async function control(url: string, request: RequestInit, { fail }: Terminal) {
  try {
    const reply = await fetch(url, request);
    const { data, message, details } = membersOf(await reply.json());
    if (reply.ok) return membersOf(data);
    const faults = Array.isArray(details) ? details.filter(isJsonObject) : [];
    fail(`error: ${url}: ${message}${faults.map((fault) => `; ${fault.path} ${fault.message}`).join('')}`);
  } catch {
    fail(`error: ${url}: no stand-ins answer there; start them with \`npm run neighbours\``);
  }
  return null;
}

if (import.meta.main) {
  const ended = new AbortController();
  onStopSignals({ first: () => ended.abort(), again: () => process.exit(130) });
  // A reader that closes the pipe (npm run neighbours | head) must not end the stand-ins.
  process.stdout.on('error', () => {});
  const around = { ...TERMINAL, env: process.env, signal: ended.signal };
  process.exitCode = await runNeighbours(process.argv.slice(2), around);
}
