import { readFileSync } from 'node:fs';
import { PassThrough, Readable } from 'node:stream';
import t from 'tap';
import { ALL_COMMANDS } from './examhall.ts';
import { readImportLine } from './import-accounts.ts';
import { readMoment, readSecret } from './operator.ts';
import { EXIT } from './output.ts';
import { readCommandLine } from './program.ts';

/** Reads a line as a shell would split it: by blanks, except within double quotes. */
function read(line: string) {
  const words = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
  const out: string[] = [];
  const err: string[] = [];
  const screen = { out: (text: string) => out.push(text), err: (text: string) => err.push(text) };
  return { read: readCommandLine(words, ALL_COMMANDS, screen), out: out.join(''), err: err.join('') };
}

t.test('each example of a command is a command line of that command', async (t) => {
  for (const [name, { examples }] of Object.entries(ALL_COMMANDS)) {
    t.not(examples.length, 0, name);
    for (const example of examples) {
      const told = read(example.replace(/ (\||\|\||<) .*/, ''));
      t.match(told.read, { name }, `${example}${told.err}`);
    }
  }
});

t.test('a command takes only the options that it names', async (t) => {
  for (const [name, { args = {}, options = [] }] of Object.entries(ALL_COMMANDS)) {
    const words = Object.keys(args).map(() => 'x');
    for (const option of ['json', 'yes', 'watch', 'shard'] as const) {
      const told = read([name, ...words, `--${option}`].join(' '));
      if (options.includes(option)) t.match(told.read, { flags: { [option]: true } }, `${name} --${option}`);
      else t.equal(told.read, 2, `${name} --${option}`);
    }
  }
});

t.test('the help and the table of docs/operating.md have every exit code with one meaning', async (t) => {
  const codes = Object.values(EXIT).map((code) => `${code}`);
  const rowsOf = (text: string, row: RegExp) => [...text.matchAll(row)].map(([, code, meaning]) => [code, meaning]);
  const ofHelp = rowsOf(read('help').out.split('Exit codes:')[1] ?? '', /^ {2}(\d+) +(\S.*)$/gm);
  const page = readFileSync(new URL('../../docs/operating.md', import.meta.url), 'utf8');
  const [, section = ''] = /^### Exit codes\n(.*?)^## /ms.exec(page) ?? [];
  t.strictSame(
    ofHelp.map(([code]) => code),
    codes,
  );
  t.strictSame(rowsOf(section, /^\| (\d+) +\| (.*?) +\|$/gm), ofHelp);
});

t.test('help goes to stdout with exit code 0, and a fault to stderr with 2', async (t) => {
  t.match(read('dead replay --help'), {
    read: 0,
    err: '',
    out: /Usage: examhall dead replay \[options\] \[id\.\.\.\]/,
  });
  t.match(read('help migrate'), { read: 0, err: '', out: /--dry-run/ });
  t.match(read('--help'), { read: 0, err: '', out: /account set-password <email>/ });
  t.match(read(''), { read: 2, out: '', err: /^Usage: examhall/ });
  t.match(read('accont show x'), { read: 2, out: '', err: /unknown command 'accont'\n\(Did you mean account\?\)/ });
  t.match(read('workers --jsn'), { read: 2, out: '', err: /unknown option '--jsn'\n\(Did you mean --json\?\)/ });
  t.match(read('dead show one two'), { read: 2, out: '', err: /too many arguments for 'show'/ });
});

t.test('`audit` alone lists the audit', async (t) => {
  t.match(read('audit --limit 3'), { read: { name: 'audit list', flags: { limit: '3' } } });
});

const NOW = Date.parse('2026-11-23T08:00:00Z');
const momentOf = (text: string) => readMoment(text, NOW)?.toISOString() ?? null;

t.test('a moment is a time with its zone or an age', async (t) => {
  t.equal(momentOf('90m'), '2026-11-23T06:30:00.000Z');
  t.equal(momentOf('30s'), '2026-11-23T07:59:30.000Z');
  t.equal(momentOf('2h'), '2026-11-23T06:00:00.000Z');
  t.equal(momentOf('3d'), '2026-11-20T08:00:00.000Z');
  t.equal(momentOf('2026-11-23T08:00+07:00'), '2026-11-23T01:00:00.000Z');
  t.equal(momentOf('2026-11-23T08:00:01.5Z'), '2026-11-23T08:00:01.500Z');
});

t.test('anything else is refused', async (t) => {
  for (const text of ['', '2', 'h', '-2h', '2w', '2026-11-23', '2026-11-23T08:00', '2026-13-01T00:00Z', 'yesterday']) {
    t.equal(momentOf(text), null, text);
  }
});

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

const HASH = `$2b$10$${'a'.repeat(53)}`;
const LINE = { email: ' An@School.VN ', fullName: ' Nguyễn Thị An ', role: 'TEACHER', passwordHash: HASH };
const readLine = (line: unknown) => readImportLine(JSON.stringify(line));
const faultsOf = (line: unknown) => {
  const result = readLine(line);
  return result.kind === 'faulty' ? result.faults : [];
};

t.test('normalizes a valid import line like a registration', async (t) => {
  t.strictSame(readLine({ ...LINE, phone: '0912 345 678', legacyId: '42' }), {
    kind: 'row',
    row: {
      registration: { email: 'an@school.vn', fullName: 'Nguyễn Thị An', phone: '+84912345678', role: 'TEACHER' },
      legacyId: '42',
      passwordHash: HASH,
    },
  });
  t.match(readLine(LINE), { row: { registration: { phone: null }, legacyId: null } });
  t.match(readLine({ ...LINE, phone: null, legacyId: null }), {
    row: { registration: { phone: null }, legacyId: null },
  });
  const hash = HASH.replace('b', 'y');
  t.match(readLine({ ...LINE, role: 'ADMIN', passwordHash: hash }), { row: { registration: { role: 'ADMIN' } } });
});

t.test('reports every fault of an import line at once, without quoting its values', async (t) => {
  const bad = { email: 'an', fullName: 7, role: 'KING', phone: 'x', legacyId: 'a b', passwordHash: 'secret', age: 3 };
  const faults = faultsOf(bad);
  for (const about of [
    /^email/,
    /^fullName must be text/,
    /^role/,
    /^phone/,
    /^legacyId/,
    /^passwordHash/,
    /^unknown field "age"/,
  ]) {
    t.equal(faults.filter((fault) => about.test(fault)).length, 1, `${about}`);
  }
  t.equal(faults.length, 7);
  t.notMatch(faults.join(), 'secret');
  t.strictSame(faultsOf({}), ['email is missing', 'fullName is missing', 'role is missing', 'passwordHash is missing']);
  t.strictSame(faultsOf({ ...LINE, phone: 7, legacyId: 42 }), ['phone must be text', 'legacyId must be text']);
  for (const passwordHash of [7, null, '', `$2b$16$${'a'.repeat(53)}`, `$2x$10$${'a'.repeat(53)}`, `${HASH}a`]) {
    t.match(faultsOf({ ...LINE, passwordHash }), [/^passwordHash/], `${passwordHash}`);
  }
  t.strictSame(faultsOf({ ...LINE, [`${'k'.repeat(39)}😀`]: 1 }), [`unknown field "${'k'.repeat(39)}"`]);
  for (const text of ['', '[]', 'null', '"x"', '{', `{"passwordHash":"${HASH}"`]) {
    t.strictSame(readImportLine(text), { kind: 'faulty', faults: ['is not a JSON object'] }, text);
  }
});
