/** Where a file stands in the architecture. */
export type Place =
  | { readonly layer: 'kernel' | 'generated' | 'scripts' | 'schemas' | 'elsewhere' }
  | { readonly layer: 'rules'; readonly service: string }
  | { readonly layer: 'infra'; readonly folder: string }
  | { readonly layer: 'api' | 'workers'; readonly folder: string | undefined };

/** `path` is relative to the root, with forward slashes. */
export function placeOf(path: string): Place {
  const [top, second, third] = path.split('/');
  if (top === 'api' || top === 'workers') return { layer: top, folder: third === undefined ? undefined : second };
  if (top === 'scripts' || top === 'schemas') return { layer: top };
  if (top !== 'shared' || second === undefined) return { layer: 'elsewhere' };
  if (second === 'kernel' || second === 'generated') return { layer: second };
  // A file right under shared/infra belongs to no library's folder.
  if (second === 'infra') return { layer: 'infra', folder: path.split('/').length > 3 ? (third ?? '') : '' };
  return { layer: 'rules', service: second };
}

/** The folder that counts as one home of a library. */
export function homeOf(path: string): string {
  const place = placeOf(path);
  if (place.layer === 'infra') return `shared/infra/${place.folder}`;
  if (place.layer === 'rules') return `shared/${place.service}`;
  return path
    .split('/')
    .slice(0, path.startsWith('shared/') ? 2 : 1)
    .join('/');
}
