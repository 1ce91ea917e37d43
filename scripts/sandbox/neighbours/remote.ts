import { isJsonObject, membersOf } from '#shared/kernel/json-object.ts';

/** Prints the lines and the faults of a command. */
export interface Terminal {
  print(line: string): void;
  fail(line: string): void;
}

/**
 * Begins a failure of a neighbour in running stand-ins; `words` are its members as `name=value`. Without words it ends the present one.
 * Returns the exit code.
 */
export async function failNeighbour(url: string, [name = '', ...words]: readonly string[], terminal: Terminal) {
  const failure = words.length === 0 ? { reset: true } : Object.fromEntries(words.map(memberOf));
  const reply = await control(`${url}/_control/${encodeURIComponent(name)}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(failure),
  });
  if (typeof reply === 'string') return failed(terminal, url, reply);
  terminal.print(words.length === 0 ? `${name} answers again` : `${name} fails: ${words.join(' ')}`);
  return 0;
}

/** Prints the stand-ins with their failures and the statuses of their newest calls. Returns the exit code. */
export async function showNeighbours(url: string, terminal: Terminal): Promise<number> {
  const reply = await control(`${url}/_control`, {});
  if (typeof reply === 'string') return failed(terminal, url, reply);
  const pairs = (value: unknown) => Object.entries(membersOf(value)).map(([key, count]) => `${key}=${count}`);
  for (const [name, found] of Object.entries(membersOf(reply.neighbours))) {
    const { failure, calls, answered } = membersOf(found);
    const failing = failure === null ? '' : `  fails: ${pairs(failure).join(' ')}`;
    terminal.print(`${name.padEnd(13)}  ${String(calls).padStart(5)} calls  ${pairs(answered).join(' ')}${failing}`);
  }
  return 0;
}

/** Returns a member of a failure: `answer=503` is a number, `drop=true` or `drop` a truth value, anything else a text. */
function memberOf(word: string): [string, unknown] {
  const [name = '', ...rest] = word.split('=');
  const value = rest.join('=');
  if (rest.length === 0 || value === 'true') return [name, true];
  return [name, /^\d+$/.test(value) ? Number(value) : value];
}

/** Returns the data of a reply of the control interface, or the reason of its failure. */
async function control(url: string, request: RequestInit): Promise<Readonly<Record<string, unknown>> | string> {
  try {
    const reply = await fetch(url, request);
    const envelope: unknown = await reply.json();
    if (reply.ok) return membersOf(membersOf(envelope).data);
    const { message, details } = membersOf(envelope);
    const faults = Array.isArray(details)
      ? details.filter(isJsonObject).map((fault) => `; ${fault.path} ${fault.message}`)
      : [];
    return `${message}${faults.join('')}`;
  } catch {
    return 'no stand-ins answer there; start them with `npm run neighbours`';
  }
}

function failed({ fail }: Terminal, url: string, reason: string): number {
  fail(`error: ${url}: ${reason}`);
  return 1;
}
