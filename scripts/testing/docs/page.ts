import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Code, Nodes } from 'mdast';
import { fromMarkdown } from 'mdast-util-from-markdown';
import { gfmTableFromMarkdown } from 'mdast-util-gfm-table';
import { gfmTable } from 'micromark-extension-gfm-table';

/** The reply to an example as a page shows it: the `body` of the last one, or the `text` that the command prints. */
export type ShownReply = { readonly line: number; readonly status: number | null } & (
  | { readonly kind: 'json'; readonly body: unknown }
  | { readonly kind: 'text'; readonly text: string }
);

/** One `sh` block, with the reply that the page shows for it. */
export interface Example {
  readonly kind: 'example';
  readonly line: number;
  readonly script: string;
  reply: ShownReply | null;
}

/** A request that the product sends, as a page shows it or as a service received it. */
export interface SentRequest {
  readonly method: string;
  readonly path: string;
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

export interface Outgoing {
  readonly kind: 'outgoing';
  readonly line: number;
  readonly request: SentRequest;
}

/** A document with the examples that run, in their order. */
export interface Page {
  readonly file: string;
  readonly source: string;
  readonly steps: readonly (Example | Outgoing)[];
  /** Examples that could not be run or compared, one line each. */
  readonly faults: readonly string[];
}

/** Languages of blocks that hold code of other programs. Other tests run them. */
const CODE = new Set(['js', 'python', 'mermaid']);

const ROOT = path.resolve(import.meta.dirname, '../../..');

/** Returns README and every document. */
export function allPages(): Page[] {
  return ['README.md', ...globSync('docs/**/*.md', { cwd: ROOT }).sort()].map(pageAt);
}

/** Reads one document, by its path from the root of the project. */
export function pageAt(file: string): Page {
  return readPage(file, readFileSync(path.join(ROOT, file), 'utf8'));
}

/** Reads the examples of a Markdown document. See "Examples in documents" in CONTRIBUTING.md. */
export function readPage(file: string, source: string): Page {
  const steps: (Example | Outgoing)[] = [];
  const faults: string[] = [];
  /** The last `sh` block, as long as no reply to it has come, and the status in the prose below it. */
  let open: Example | null = null;
  let status: number | null = null;

  function readBlock({ lang, meta, value }: Code, line: number, fault: (what: string) => void): void {
    if (meta) fault(`\`${lang} ${meta}\`: a block has a language and nothing more`);
    if (lang === 'sh') {
      open = { kind: 'example', line, script: value, reply: null };
      status = null;
      steps.push(open);
    } else if (lang === 'json' || lang === 'text') {
      if (open === null) return void fault(`a ${lang} block without a command that it is the reply to`);
      const body = lang === 'json' ? parsed(value) : null;
      if (lang === 'json' && status === null) fault('no status above the reply, such as `201`');
      if (body === undefined) fault('the reply is not JSON');
      open.reply = lang === 'json' ? { kind: lang, line, status, body } : { kind: lang, line, status, text: value };
      open = null;
    } else if (lang === 'http') {
      open = null;
      const request = readRequest(value);
      if (request === null) fault('not a request line, headers, an empty line and a JSON body');
      else steps.push({ kind: 'outgoing', line, request });
    } else if (!CODE.has(lang ?? '') && (/\bcurl\b/.test(value) || holdsJson(value))) {
      fault('a call or JSON that no test runs: make it `sh`, `json` or `http`');
    }
  }

  visit(readMarkdown(source), (node) => {
    const line = node.position?.start.line ?? 0;
    const fault = (what: string) => void faults.push(`${file}:${line}: ${what}`);
    if (node.type === 'code') readBlock(node, line, fault);
    else if (node.type === 'heading') open = null;
    else if (node.type === 'inlineCode') {
      if (/\bcurl\s/.test(node.value)) fault('a call that no test runs: make it `sh`');
      if (/^[1-5]\d\d$/.test(node.value)) status ??= Number(node.value);
    }
  });
  return { file, source, steps, faults };
}

export function readMarkdown(source: string): Nodes {
  return fromMarkdown(source, { extensions: [gfmTable()], mdastExtensions: [gfmTableFromMarkdown()] });
}

function visit(node: Nodes, on: (node: Nodes) => void): void {
  on(node);
  if ('children' in node) for (const child of node.children) visit(child, on);
}

/** Reads a request line, headers and, after an empty line, a JSON body. Returns null for other text. */
function readRequest(text: string): SentRequest | null {
  const [head = '', ...rest] = text.split('\n\n');
  const [first = '', ...lines] = head.split('\n');
  const [, method, target] = /^([A-Z]+) (\/\S*) HTTP\/1\.1$/.exec(first) ?? [];
  const headers = lines.map((line) => /^([\w-]+): *(.*)$/.exec(line));
  const body = rest.length === 0 ? null : parsed(rest.join('\n\n'));
  if (method === undefined || target === undefined || headers.includes(null) || body === undefined) return null;
  const named = headers.map((match) => [match?.[1]?.toLowerCase(), match?.[2]]);
  return { method, path: target, headers: Object.fromEntries(named), body };
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns whether a line begins an object with a quoted member, or the whole text is a JSON object or list. */
function holdsJson(text: string): boolean {
  return /^\s*[{[]\s*"/m.test(text) || (/^\s*[{[]/.test(text) && parsed(text) !== undefined);
}

/** Returns the links of a document to places that do not exist in the project, one line each. `file` is a path from `root`. */
export function brokenLinks(root: string, file: string): string[] {
  const broken: string[] = [];
  visit(treeOf(root, file), (node) => {
    if (node.type !== 'link' && node.type !== 'definition' && node.type !== 'image') return;
    const why = whyBroken(root, file, node.url);
    if (why !== null) broken.push(`${file}:${node.position?.start.line}: ${node.url}: ${why}`);
  });
  return broken;
}

const trees = new Map<string, Nodes>();

function treeOf(root: string, file: string): Nodes {
  const place = path.join(root, file);
  const tree = trees.get(place) ?? readMarkdown(readFileSync(place, 'utf8'));
  trees.set(place, tree);
  return tree;
}

function whyBroken(root: string, file: string, url: string): string | null {
  // Addresses of other sites are not checked: tests use no network.
  if (/^[a-z]+:/i.test(url)) return null;
  const [target = '', anchor] = decodeURIComponent(url).split('#');
  const place = target === '' ? file : path.join(path.dirname(file), target);
  if (!existsSync(path.join(root, place))) return 'no such file';
  if (anchor === undefined || !place.endsWith('.md')) return null;
  return anchorsOf(treeOf(root, place)).has(anchor) ? null : 'no such heading or id';
}

/** Returns the anchors of headings, as GitHub makes them, and the ids of HTML elements. */
export function anchorsOf(tree: Nodes): Set<string> {
  const anchors = new Set<string>();
  visit(tree, (node) => {
    if (node.type === 'html') for (const [, id = ''] of node.value.matchAll(/\bid="([^"]+)"/g)) anchors.add(id);
    if (node.type !== 'heading') return;
    const slug = slugOf(textOf(node));
    let anchor = slug;
    for (let again = 1; anchors.has(anchor); again++) anchor = `${slug}-${again}`;
    anchors.add(anchor);
  });
  return anchors;
}

/** Letters, digits, marks, `_` and `-` remain; a space becomes `-`. */
function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\p{M}\p{Pc} -]/gu, '')
    .replaceAll(' ', '-');
}

function textOf(node: Nodes): string {
  if ('children' in node) return node.children.map(textOf).join('');
  return node.type === 'text' || node.type === 'inlineCode' ? node.value : '';
}
