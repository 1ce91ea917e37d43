import { globSync } from 'node:fs';
import path from 'node:path';
import { fromMarkdown } from 'mdast-util-from-markdown';
import t from 'tap';
import { anchorsOf, brokenLinks } from './links.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

t.test('headings have the anchors that GitHub makes', async (t) => {
  const source = '# A `code`, and more\n\n## Twice\n\n## Twice\n\n<a id="n1"></a>\n\n## Câu hỏi_1: 202 – normal';
  t.strictSame(
    [...anchorsOf(fromMarkdown(source))],
    ['a-code-and-more', 'twice', 'twice-1', 'n1', 'câu-hỏi_1-202--normal'],
  );
});

t.test('a link to a missing file, heading or id is broken', async (t) => {
  const folder = t.testdir({
    'page.md':
      '# Here\n\n[a](#here) [b](#gone) [c](other.md#there) [d](other.md#gone) [e](gone.md) [f](https://x.example/#y)\n',
    'other.md': '## There\n',
  });
  t.strictSame(brokenLinks(folder, 'page.md'), [
    'page.md:3: #gone: no such heading or id',
    'page.md:3: other.md#gone: no such heading or id',
    'page.md:3: gone.md: no such file',
  ]);
});

t.test('every link within the documents leads to a place that exists', async (t) => {
  const files = globSync(['*.md', 'docs/**/*.md', 'clients/*/*.md'], { cwd: ROOT });
  t.ok(files.includes('README.md') && files.length > 10);
  t.strictSame(
    files.flatMap((file) => brokenLinks(ROOT, file)),
    [],
  );
});
