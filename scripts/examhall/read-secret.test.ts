import { PassThrough, Readable } from 'node:stream';
import t from 'tap';
import { readSecret } from './read-secret.ts';

/** A terminal at which `typed` is typed; it shows what is typed unless it is in raw mode. */
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

t.test('at a terminal it is typed twice and never shown', async (t) => {
  const { modes, said, read } = terminal('ngựa đúng\rngựa đúng\r');
  t.equal(await read(), 'ngựa đúng');
  t.strictSame(modes, [true, false], 'the terminal shows nothing until it has been read');
  t.strictSame(said, ['type it, it is not shown, then Enter:', 'and again:']);
});

t.test('what is typed may be mended before Enter', async (t) => {
  t.equal(await terminal('ngựax\x7f\rngựa\r').read(), 'ngựa');
});

t.test('one mistyped, or given up by Ctrl-C or Ctrl-D, is none', async (t) => {
  t.strictSame(await terminal('ngựa\rngua\r').read(), { fault: 'was not the same twice' });
  for (const end of ['\x03', '\x04']) {
    const { modes, read } = terminal(end);
    t.strictSame(await read(), { fault: 'was not given' });
    t.strictSame(modes, [true, false], 'the terminal is given back');
    t.strictSame(await terminal(`ngựa\r${end}`).read(), { fault: 'was not the same twice' });
  }
});

t.test('a pipe is read to its end, without a word', async (t) => {
  const said: string[] = [];
  const piped = (bytes: string | Buffer) => readSecret(Readable.from([Buffer.from(bytes)]), (line) => said.push(line));
  for (const end of ['', '\n', '\r\n']) t.equal(await piped(` hai chữ ${end}`), ' hai chữ ');
  for (const bytes of ['a\nb', 'a\n\n', Buffer.from([0xff, 0xfe])]) {
    t.strictSame(await piped(bytes), { fault: 'must be one line of UTF-8' });
  }
  t.strictSame(said, []);
});
