import t from 'tap';
import { enginesMarkdown, type Sources } from './document.ts';
import type { Recording } from './recordings.ts';

const FILES = ['attempt/attempts', 'mailbox/claim'].map((name) => `shared/infra/mongo/${name}.ts`);
const PYTHON: Recording = {
  version: 'SecantusDB 1',
  suite: { passed: 1_234, failed: 0 },
  features: { 'command find': FILES, 'query $gt': ['workers/main.ts'] },
};
const RUST: Recording = { version: 'SecantusDB 2', suite: null, features: { 'command find': FILES } };
const SOURCES: Sources = {
  recordings: new Map([
    ['python', PYTHON],
    ['rust', RUST],
  ]),
  manual: { 'query $gt': 'greater', 'command find': 'a cursor' },
  sometimes: [],
  differences: [
    {
      title: 'Finding',
      engines: ['rust'],
      features: ['command find'],
      manual: 'It finds.',
      differs: 'It seeks.',
      workaround: 'It waits.',
      cost: 'none.',
    },
  ],
};

t.test('docs/engines.md lists the files, the engines and the guarantee of each feature', async (t) => {
  const page = enginesMarkdown(SOURCES);
  t.match(page, '| `find` | `attempt/attempts`, `mailbox/claim` | Python, Rust [1](#d1) | a cursor |');
  t.match(page, '| `$gt` | `workers/main` | Python | greater |');
  t.match(page, '| Python | SecantusDB 1 | 1,234 passed, 0 failed |');
  t.match(page, '| Rust | SecantusDB 2 | recorded in parts |');
  t.ok(page.indexOf('## Commands') < page.indexOf('## Query operators'));
  t.match(page, '### <a id="d1"></a>1. Finding');
});

t.test('docs/engines.md counts the files that do not fit into a row', async (t) => {
  const files = Array.from({ length: 30 }, (_, n) => `shared/infra/mongo/attempt/file-${n + 10}.ts`);
  const recordings = new Map([['python', { ...PYTHON, features: { 'command find': files } }]] as const);
  const page = enginesMarkdown({ ...SOURCES, recordings, manual: { 'command find': 'a cursor' } });
  const row = page.split('\n').find((line) => line.startsWith('| `find`')) ?? '';
  t.match(row, /`attempt\/file-10`, .* and \d\d more \|/);
  t.ok(row.length <= 160, row);
});

t.test(
  'docs/engines.md is refused for a feature without an entry and for an entry that was never recorded',
  async (t) => {
    const { 'query $gt': _, ...fewer } = SOURCES.manual;
    t.throws(() => enginesMarkdown({ ...SOURCES, manual: fewer }), { message: /no entry for: query \$gt/ });
    const manual = { ...SOURCES.manual, 'query $lt': 'less' };
    t.throws(() => enginesMarkdown({ ...SOURCES, manual }), { message: /that no test uses: query \$lt/ });
    const page = enginesMarkdown({ ...SOURCES, manual, sometimes: ['query $lt'] });
    t.match(page, '| `$lt` |  | rare | less |');
  },
);

t.test('docs/engines.md is refused if a difference names an unlisted feature', async (t) => {
  const differences = SOURCES.differences.map((difference) => ({ ...difference, features: ['query $near'] as const }));
  t.throws(() => enginesMarkdown({ ...SOURCES, differences }), { message: /names .*: query \$near/ });
});

t.test('the rows of docs/engines.md have at most 160 characters', async (t) => {
  const wide = enginesMarkdown()
    .split('\n')
    .filter((line) => line.startsWith('| ') && line.length > 160);
  t.strictSame(wide, []);
});
