import { readFileSync } from 'node:fs';
import t from 'tap';
import { ALL_COMMANDS } from '#scripts/examhall.ts';
import { EXIT } from './exit-codes.ts';
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
