import t from 'tap';
import { atOnce } from '#shared/kernel/pieces.ts';
import type { SchemaNode } from './schema-document.ts';
import { run, segmentCompiler } from './segment.ts';
import { queryParser } from './validator.ts';

const SCHEMA: SchemaNode = {
  type: 'object',
  'x-unknown-fields': 'dropped',
  properties: {
    page: { type: 'integer', minimum: 1, maximum: 10_000 },
    share: { type: 'number' },
    unread: { type: 'boolean' },
    type: { type: 'string', enum: ['A', 'B'] },
    q: { type: 'string', maxLength: 5 },
  },
};
const segment = segmentCompiler()(SCHEMA);
const parse = queryParser(SCHEMA, (value) => {
  const faults: { path: string; message: string }[] = [];
  atOnce(run(segment, value, faults, 10));
  return faults;
});

t.test('the query parser converts fields to their declared types', async (t) => {
  t.strictSame(parse('page=2&share=0.5&unread=true&type=A&q=a%20b'), {
    query: { page: 2, share: 0.5, unread: true, type: 'A', q: 'a b' },
    faults: [],
  });
  t.strictSame(parse(''), { query: {}, faults: [] });
  t.strictSame(parse('other=1&other=2&__proto__=x').faults, [], 'unknown names are ignored');
  t.strictSame(parse('page=&unread=&type=&q=&share'), { query: {}, faults: [] }, 'an empty value is absent');
});

t.test('the query parser clamps no value, guesses no type and builds no structure', async (t) => {
  const paths = (search: string) => parse(search).faults.map((fault) => fault.path);
  for (const page of ['0', '10001', '1.5', '1e3', ' 1', '0x1', 'NaN', '+1', '9'.repeat(400)]) {
    t.strictSame(paths(`page=${encodeURIComponent(page)}`), ['/page'], page);
  }
  for (const flag of ['1', 'TRUE']) t.strictSame(paths(`unread=${flag}`), ['/unread'], flag);
  t.strictSame(paths('type=C'), ['/type']);
  t.strictSame(paths('q=123456'), ['/q']);
  t.strictSame(paths('page=1&page=1'), ['/page'], 'a repeat');
  t.strictSame(paths(`q=${'%CC%81'.repeat(31)}`), ['/q'], 'a run of combining marks');
  t.strictSame(paths('page=1&page=x&page=2'), ['/page', '/page']);
  t.strictSame(paths('page=&page=2'), ['/page'], 'a repeat of an empty value');
  t.strictSame(paths('type[$ne]=A'), ['/type[$ne]']);
  t.strictSame(paths('unknown[]=1&a%5B0%5D=2'), ['/unknown[]', '/a[0]'], 'brackets, even in an unknown name');
});

t.test('the query parser of a route without a schema refuses brackets', async (t) => {
  const bare = queryParser({}, () => []);
  t.strictSame(bare('a=1&a=2'), { query: {}, faults: [] });
  t.equal(bare('a[]=1').faults.length, 1);
});
