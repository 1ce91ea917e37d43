import { createInterface } from 'node:readline';
import { type Readable, Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';

/** Standard input, or a stream that replaces it in tests. */
export type SecretInput = Readable & { isTTY?: boolean };

/**
 * Reads a password, without showing it. A terminal is prompted twice by `prompt`. A pipe or file is read to its end; one final line end,
 * which editors and `echo` add, is removed. Returns a fault if the input is not one line of UTF-8 or if the two entries differ.
 */
export function readSecret(input: SecretInput, prompt: (line: string) => void): Promise<string | { fault: string }> {
  return input.isTTY === true ? readTyped(input, prompt) : readPiped(input);
}

async function readPiped(input: Readable): Promise<string | { fault: string }> {
  const fault = 'the password must be one line of UTF-8';
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await buffer(input)).replace(/\r?\n$/, '');
    return /[\r\n]/.test(text) ? { fault } : text;
  } catch {
    return { fault };
  }
}

/** Hides the typed characters: readline puts the terminal into raw mode, and its own echo goes into an output that discards it. */
async function readTyped(input: Readable, prompt: (line: string) => void): Promise<string | { fault: string }> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input, output: nowhere, terminal: true, historySize: 0 });
  terminal.on('SIGINT', () => terminal.close());
  const lines = terminal[Symbol.asyncIterator]();
  try {
    prompt('New password (hidden):');
    const first = await lines.next();
    if (first.done === true) return { fault: 'no password was entered' };
    prompt('Repeat password:');
    const second = await lines.next();
    return second.value === first.value ? first.value : { fault: 'passwords do not match' };
  } finally {
    terminal.close();
  }
}
