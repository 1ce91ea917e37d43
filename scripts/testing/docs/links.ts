import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Nodes } from 'mdast';
import { readMarkdown, visit } from './page.ts';

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

const trees = new Map<string, Nodes>();

function treeOf(root: string, file: string): Nodes {
  const known = trees.get(file);
  if (known !== undefined) return known;
  const tree = readMarkdown(readFileSync(path.join(root, file), 'utf8'));
  trees.set(file, tree);
  return tree;
}

function textOf(node: Nodes): string {
  if ('children' in node) return node.children.map(textOf).join('');
  return node.type === 'text' || node.type === 'inlineCode' ? node.value : '';
}
