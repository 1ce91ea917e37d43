import { createInterface } from 'node:readline';
import { type Readable, Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';

/** Standard input, or what stands for it. */
export type SecretInput = Readable & { isTTY?: boolean };

/**
 * One line that must not be seen. At a terminal it is asked for twice by `say` and not shown; of a pipe or file it is all there is, but
 * for the line end that an editor or echo adds. A fault says what is wrong with it.
 */
export function readSecret(input: SecretInput, say: (line: string) => void): Promise<string | { fault: string }> {
  return input.isTTY === true ? readTyped(input, say) : readPiped(input);
}

async function readPiped(input: Readable): Promise<string | { fault: string }> {
  const fault = 'must be one line of UTF-8';
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await buffer(input)).replace(/\r?\n$/, '');
    return /[\r\n]/.test(text) ? { fault } : text;
  } catch {
    return { fault };
  }
}

/** The terminal is in raw mode meanwhile: it shows nothing by itself, and what readline would show goes nowhere. */
async function readTyped(input: Readable, say: (line: string) => void): Promise<string | { fault: string }> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input, output: nowhere, terminal: true, historySize: 0 });
  terminal.on('SIGINT', () => terminal.close());
  const lines = terminal[Symbol.asyncIterator]();
  try {
    say('type it, it is not shown, then Enter:');
    const first = await lines.next();
    if (first.done === true) return { fault: 'was not given' };
    say('and again:');
    const second = await lines.next();
    return second.value === first.value ? first.value : { fault: 'was not the same twice' };
  } finally {
    terminal.close();
  }
}
