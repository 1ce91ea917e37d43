/** Place of a file in the architecture. */
export type Place =
  | { readonly layer: 'kernel' | 'generated' | 'scripts' | 'schemas' | 'clients' | 'elsewhere' }
  | { readonly layer: 'rules'; readonly service: string }
  /** `part` is the folder below shared/infra/mongo. */
  | { readonly layer: 'infra'; readonly folder: string; readonly part: string | undefined }
  /** `folder` is undefined for a file directly below api/ or workers/. */
  | { readonly layer: 'api' | 'workers'; readonly folder: string | undefined; readonly file: string };

/** `path` is relative to the root, with forward slashes. */
export function placeOf(path: string): Place {
  const [top, second, third, fourth, fifth] = path.split('/');
  if (top === 'api' || top === 'workers') {
    return {
      layer: top,
      folder: third === undefined ? undefined : second,
      file: path.slice(path.lastIndexOf('/') + 1),
    };
  }
  if (top === 'scripts' || top === 'schemas' || top === 'clients') return { layer: top };
  if (top !== 'shared' || second === undefined) return { layer: 'elsewhere' };
  if (second === 'kernel' || second === 'generated') return { layer: second };
  // A file right under shared/infra belongs to no library's folder.
  if (second === 'infra') {
    const part = third === 'mongo' && fifth !== undefined ? fourth : undefined;
    return { layer: 'infra', folder: fourth === undefined ? '' : (third ?? ''), part };
  }
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
