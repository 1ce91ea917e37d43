import type { Code, Nodes } from 'mdast';
import { fromMarkdown } from 'mdast-util-from-markdown';
import { readSentRequest, type SentRequest } from './sent-request.ts';

/** Part of a page, as offsets into its source. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** The reply to an example as a page shows it. */
export interface ShownReply extends Span {
  /** `json` is the body of the last reply, `text` what the command prints. */
  readonly kind: 'json' | 'text';
  readonly line: number;
  readonly value: string;
  /** The status in the prose above the reply. Always there for `json`. */
  readonly status: (Span & { readonly code: number }) | null;
}

/** One `sh` block, with the reply that the page shows for it. */
export interface Example {
  readonly kind: 'example';
  readonly line: number;
  readonly script: string;
  readonly reply: ShownReply | null;
}

/** One `http` block: a request that the product sends to another service. */
export interface Outgoing extends Span {
  readonly kind: 'outgoing';
  readonly line: number;
  readonly request: SentRequest;
}

export type Step = Example | Outgoing;

/** A document with the examples that run, in their order. */
export interface Page {
  readonly file: string;
  readonly source: string;
  readonly steps: readonly Step[];
  /** Examples that could not be run or compared, one line each. */
  readonly faults: readonly string[];
}

/** Languages of blocks that hold code of other programs. Other tests run them. */
const CODE = new Set(['js', 'python', 'mermaid']);
const STATUS = /^[1-5]\d\d$/;

/** Reads the examples of a Markdown document. See "Examples in documents" in CONTRIBUTING.md. */
export function readPage(file: string, source: string): Page {
  const steps: Step[] = [];
  const faults: string[] = [];
  /** The last `sh` block, as long as no reply to it has come. */
  let open: (Omit<Example, 'reply'> & { at: number }) | null = null;
  let status: ShownReply['status'] = null;

  function close(reply: ShownReply | null): void {
    if (open === null) return;
    steps.push({ kind: 'example', line: open.line, script: open.script, reply });
    open = null;
    status = null;
  }

  function readBlock(node: Code): void {
    const { start, end } = contentOf(node, source);
    const line = node.position?.start.line ?? 0;
    const fault = (what: string) => faults.push(`${file}:${line}: ${what}`);
    const lang = node.lang ?? '';
    if (node.meta) fault(`\`${lang} ${node.meta}\`: a block has a language and nothing more`);
    if (lang === 'sh') {
      close(null);
      open = { kind: 'example', line, script: node.value, at: start };
    } else if (lang === 'json' || lang === 'text') {
      if (open === null) return void fault(`a ${lang} block without a command that it is the reply to`);
      if (lang === 'json' && status === null) fault('no status above the reply, such as `201`');
      if (lang === 'json' && !isJson(node.value)) fault('the reply is not JSON');
      close({ kind: lang, line, value: node.value, status, start, end });
    } else if (lang === 'http') {
      close(null);
      const request = readSentRequest(node.value);
      if (request === null) fault('not a request line, headers, an empty line and a JSON body');
      else steps.push({ kind: 'outgoing', line, request, start, end });
    } else if (!CODE.has(lang) && (/\bcurl\b/.test(node.value) || holdsJson(node.value))) {
      fault('a call or JSON that no test runs: make it `sh`, `json` or `http`');
    }
  }

  visit(fromMarkdown(source), (node) => {
    if (node.type === 'code') readBlock(node);
    else if (node.type === 'heading') close(null);
    else if (node.type === 'inlineCode') {
      const { start, end } = node.position ?? {};
      if (/\bcurl\s/.test(node.value)) faults.push(`${file}:${start?.line}: a call that no test runs: make it \`sh\``);
      if (open === null || !STATUS.test(node.value) || status !== null) return;
      status = { code: Number(node.value), start: (start?.offset ?? 0) + 1, end: (end?.offset ?? 0) - 1 };
    }
  });
  close(null);
  return { file, source, steps, faults };
}

function visit(node: Nodes, on: (node: Nodes) => void): void {
  on(node);
  if ('children' in node) for (const child of node.children) visit(child, on);
}

/** Returns the lines between the two fences. @throws Error for a block that is indented instead */
function contentOf(node: Code, source: string): Span {
  const from = node.position?.start.offset ?? 0;
  const to = node.position?.end.offset ?? 0;
  const start = source.indexOf('\n', from) + 1;
  return { start, end: Math.max(start, source.lastIndexOf('\n', to - 1)) };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Returns whether a line begins an object with a quoted member, or the whole text is a JSON object or list. */
function holdsJson(text: string): boolean {
  return /^\s*[{[]\s*"/m.test(text) || (/^\s*[{[]/.test(text) && isJson(text));
}
