import { parseArgs } from 'node:util';
import { mathsPaper } from '#scripts/sandbox/school/paper.ts';
import { intakeEnvironment, mailEnvironment, standInEnvironment } from './environment.ts';
import { openStandIns } from './open-stand-ins.ts';
import { failNeighbour, showNeighbours, type Terminal } from './remote.ts';

const DEFAULT_PORT = '3999';
const DEFAULT_BALANCE = '10000';

const USAGE = `npm run neighbours -- [options]                    serves a stand-in for each service that examhall calls, until Ctrl-C
npm run neighbours -- fail NAME MEMBER=VALUE…     begins a failure of a running stand-in; without members, ends it
npm run neighbours -- show                        prints the running stand-ins, their failures and the statuses of their replies

  --port P       port of the stand-ins on 127.0.0.1 (default ${DEFAULT_PORT}); the next one is the port of the mail server
  --forward URL  passes notices on to the notification service at this URL; by default the stand-in stores them itself
  --balance N    first balance of every organization at the wallet, in credits (default ${DEFAULT_BALANCE})

Members of a failure: answer=503, refuse=422, drop, lose, delayMs=5000, retryAfter=7, times=3, every=25, only=/transactions.
Of the mail server: fail mail answer=550 at=recipient only=hs001@; at is connection, sign-in, sender, recipient (default) or text.
The stand-ins require the tokens that a cluster with the same environment sends: INTERNAL_SERVICE_TOKEN (default dev-internal-token),
and for notices NOTIFICATION_TOKEN_<SENDER> or NOTIFICATION_INTERNAL_SERVICE_TOKEN.
Exit code: 0 done; 1 the port is in use, or the failure is refused; 64 an invalid option.
`;

export interface Around extends Terminal {
  env: NodeJS.ProcessEnv;
  /** Ends the stand-ins. */
  signal: AbortSignal;
}

/** Serves the stand-ins until the signal aborts, or acts on running ones. Returns the exit code. */
export async function runNeighbours(args: readonly string[], around: Around): Promise<number> {
  const { env, print, fail, signal } = around;
  const options = readOptions(args, fail);
  if (options === 'help') {
    print(USAGE);
    return 0;
  }
  if (options === null) {
    fail(USAGE);
    return 64;
  }
  const { act, words, port, forward, balance } = options;
  const running = `http://127.0.0.1:${port}`;
  if (act === 'fail') return failNeighbour(running, words, around);
  if (act === 'show') return showNeighbours(running, around);
  const opening = openStandIns({
    port,
    env,
    balance,
    questions: mathsPaper(),
    mailPort: port === 0 ? 0 : port + 1,
    heardMail: ({ status, about }) => print(`${'mail'.padEnd(13)} ${status ?? '---'}  ${about}`),
    heard: (name, { method, path, status }) => print(`${name.padEnd(13)} ${status ?? '---'}  ${method} ${path}`),
  });
  const standIns = await opening.catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') return null;
    throw error;
  });
  if (standIns === null) {
    fail(
      `error: port ${port} or ${port + 1} is in use, perhaps by other stand-ins or a demo; end those, or pass --port`,
    );
    return 1;
  }
  standIns.notification.forwardTo(forward);
  for (const line of introductionOf(standIns.url, standIns.mail?.port, forward)) print(line);
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
  await standIns.close();
  return 0;
}

function introductionOf(url: string, mailPort: number | undefined, forward: string | null): string[] {
  const lines = (variables: Record<string, string>) =>
    Object.entries(variables).map(([name, value]) => `${name}=${value}`);
  return [
    `# Stand-ins at ${url}. To point a cluster at them: NEIGHBOURS_URL=${url} npm start, or these variables:`,
    ...lines({ ...standInEnvironment(url), ...mailEnvironment(url, mailPort) }),
    forward === null
      ? '# Only if the cluster serves no `notification` of its own, because notices then never reach an inbox:'
      : `# Notices are passed on to ${forward}:`,
    ...lines(intakeEnvironment(url)).map((line) => (forward === null ? `# ${line}` : line)),
    '# To script a failure: npm run -s neighbours -- fail profile answer=503; to end it: npm run -s neighbours -- fail profile',
    '# Calls:',
  ];
}

function readOptions(args: readonly string[], fail: Around['fail']) {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        help: { type: 'boolean', short: 'h' },
        port: { type: 'string', default: DEFAULT_PORT },
        forward: { type: 'string' },
        balance: { type: 'string', default: DEFAULT_BALANCE },
      },
    });
    if (values.help === true) return 'help';
    const [port, balance] = [Number(values.port), Number(values.balance)];
    const isPort = Number.isInteger(port) && port >= 0 && port < 65_535;
    if (!isPort || !Number.isInteger(balance) || balance < 0) return null;
    const [act, ...words] = positionals;
    const isAct = act === undefined || (act === 'fail' && words.length > 0) || (act === 'show' && words.length === 0);
    if (!isAct) return null;
    const { forward = null } = values;
    if (forward !== null && !/^https?:$/.test(URL.parse(forward)?.protocol ?? '')) return null;
    return { act, words, port, balance, forward };
  } catch (error) {
    fail(`error: ${error instanceof Error ? error.message : error}`);
    return null;
  }
}
