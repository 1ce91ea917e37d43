import fc from 'fast-check';
import t from 'tap';
import { flag, type Html, html } from './html.ts';

const text = (value: Html) => value.toString();

t.test('values between tags and in attributes are escaped', async (t) => {
  const attack = `"><script>alert('x')</script>&amp;`;
  const safe = '&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;amp;';
  t.equal(text(html`<p title="${attack}">${attack}</p>`), `<p title="${safe}">${safe}</p>`);
});

t.test('no text leaves its place in a page', async () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (value) => {
      const page = text(html`<a class="${value}">${value}</a>`);
      const [, inAttribute = '', between = ''] = /^<a class="([^"]*)">([^<]*)<\/a>$/s.exec(page) ?? [];
      return !/[<>"']/.test(inAttribute + between) && inAttribute === between;
    }),
  );
});

t.test('a template within a template is not escaped again, and lists are joined', async (t) => {
  const items = ['a<', 'b'].map((one) => html`<li>${one}</li>`);
  t.equal(text(html`<ul>${items}${null}${undefined}${false}${0}</ul>`), '<ul><li>a&lt;</li><li>b</li>0</ul>');
});

t.test('a forged template is refused', async (t) => {
  const forged = { toString: () => '<script>', text: '<script>', isFlag: false };
  t.throws(() => html`<p>${forged as unknown as Html}</p>`);
  t.throws(() => html`<p>${JSON.parse('{"a":1}')}</p>`);
  t.throws(() => html`<p title="${html`<b></b>`}"></p>`);
});

t.test('a URL leads to this server', async (t) => {
  t.equal(text(html`<a href="${'/ops/trace?q=a&b'}">x</a>`), '<a href="/ops/trace?q=a&amp;b">x</a>');
  t.equal(text(html`<a href="/ops/trace?q=${'javascript:'}">x</a>`), '<a href="/ops/trace?q=javascript:">x</a>');
  for (const url of [
    'javascript:alert(1)',
    '//evil.example',
    '/\\evil',
    '/\t/evil.example',
    'https://evil.example',
    ' /x',
    '',
  ]) {
    t.throws(() => html`<a href="${url}">x</a>`, url);
    t.throws(() => html`<form action="${url}"></form>`, url);
  }
});

t.test('a template with a value where escaping would not help is refused', async (t) => {
  const x = 'x';
  t.throws(() => html`<p ${x}></p>`, 'an attribute');
  t.throws(() => html`<p title=${x}></p>`, 'an attribute without quotes');
  t.throws(() => html`<p title='${x}'></p>`, 'single quotes');
  t.throws(() => html`<${x}></p>`, 'the name of a tag');
  t.throws(() => html`</${x}>`, 'the name of an end tag');
  t.throws(() => html`<p onclick="${x}"></p>`, 'a handler');
  t.throws(() => html`<p style="${x}"></p>`, 'style');
  t.throws(() => html`<script>${x}</script>`, 'a script');
  t.throws(() => html`<style>${x}</style>`, 'a style sheet');
  t.throws(() => html`<!-- ${x} -->`, 'a comment');
  t.throws(() => html`<p title="${x}`, 'an open tag');
});

t.test('a flag is an attribute without a value', async (t) => {
  t.equal(text(html`<input${flag('checked', true)}><input${flag('checked', false)}>`), '<input checked><input>');
  t.throws(() => html`<p>${flag('checked', true)}</p>`);
  t.throws(() => html`<p title="${flag('checked', true)}"></p>`);
});
