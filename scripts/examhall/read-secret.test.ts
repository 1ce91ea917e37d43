import { PassThrough, Readable } from 'node:stream';
import t from 'tap';
import { readSecret } from './read-secret.ts';

/** A terminal at which `typed` is typed; `modes` records each switch of its raw mode, which hides typed characters. */
function terminal(typed: string) {
  const modes: boolean[] = [];
  const said: string[] = [];
  const input = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: (isRaw: boolean) => void modes.push(isRaw),
  });
  input.write(typed);
  return { modes, said, read: () => readSecret(input, (line) => void said.push(line)) };
}

t.test('prompts for a password twice at a terminal and never shows it', async (t) => {
  const { modes, said, read } = terminal('ngựa đúng\rngựa đúng\r');
  t.equal(await read(), 'ngựa đúng');
  t.strictSame(modes, [true, false], 'raw mode hides the characters until both lines are read');
  t.strictSame(said, ['New password (hidden):', 'Repeat password:']);
});

t.test('accepts a password that is corrected with backspace before Enter', async (t) => {
  t.equal(await terminal('ngựax\x7f\rngựa\r').read(), 'ngựa');
});

t.test('returns a fault if the two passwords differ or Ctrl-C or Ctrl-D ends the input', async (t) => {
  t.strictSame(await terminal('ngựa\rngua\r').read(), { fault: 'passwords do not match' });
  for (const end of ['\x03', '\x04']) {
    const { modes, read } = terminal(end);
    t.strictSame(await read(), { fault: 'no password was entered' });
    t.strictSame(modes, [true, false], 'the terminal leaves raw mode');
    t.strictSame(await terminal(`ngựa\r${end}`).read(), { fault: 'passwords do not match' });
  }
});

t.test('reads a password from a pipe to its end, without a prompt', async (t) => {
  const said: string[] = [];
  const piped = (bytes: string | Buffer) => readSecret(Readable.from([Buffer.from(bytes)]), (line) => said.push(line));
  for (const end of ['', '\n', '\r\n']) t.equal(await piped(` hai chữ ${end}`), ' hai chữ ');
  for (const bytes of ['a\nb', 'a\n\n', Buffer.from([0xff, 0xfe])]) {
    t.strictSame(await piped(bytes), { fault: 'the password must be one line of UTF-8' });
  }
  t.strictSame(said, []);
});
