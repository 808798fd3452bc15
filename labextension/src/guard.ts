/**
 * Checks of what arrives over a wire: each turns an unknown value into a typed one, or throws a `WireError`
 * that names the place. Fields that nobody asked for are dropped, so that a newer server can say more.
 */

export type Guard<T> = (value: unknown, path: string) => T;

/** The type that a guard lets through. */
export type Guarded<G> = G extends Guard<infer T> ? T : never;

export class WireError extends Error {
  constructor(path: string, expected: string) {
    super(`${path}: expected ${expected}`);
    this.name = 'WireError';
  }
}

export const text: Guard<string> = (value, path) => {
  if (typeof value !== 'string') {
    throw new WireError(path, 'text');
  }
  return value;
};

export const flag: Guard<boolean> = (value, path) => {
  if (typeof value !== 'boolean') {
    throw new WireError(path, 'true or false');
  }
  return value;
};

export const amount: Guard<number> = (value, path) => {
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    throw new WireError(path, 'a number');
  }
  return value;
};

export function nullable<T>(inner: Guard<T>): Guard<T | null> {
  return (value, path) => (value === null || value === undefined ? null : inner(value, path));
}

/** *otherwise* where an older server does not send the field at all. */
export function orElse<T>(inner: Guard<T>, otherwise: T): Guard<T> {
  return (value, path) => (value === null || value === undefined ? otherwise : inner(value, path));
}

/** One of *allowed*; *otherwise* for a word that only a newer server knows. */
export function oneOfOrElse<T extends string>(otherwise: T, ...allowed: T[]): Guard<T> {
  return (value, path) => [otherwise, ...allowed].find(item => item === text(value, path)) ?? otherwise;
}

export function oneOf<T extends string>(...allowed: T[]): Guard<T> {
  return (value, path) => {
    const found = allowed.find(item => item === value);
    if (found === undefined) {
      throw new WireError(path, `one of ${allowed.join(', ')}`);
    }
    return found;
  };
}

export function list<T>(inner: Guard<T>): Guard<T[]> {
  return (value, path) => {
    if (!Array.isArray(value)) {
      throw new WireError(path, 'a list');
    }
    return value.map((item: unknown, index) => inner(item, `${path}[${index}]`));
  };
}

export function record<T>(inner: Guard<T>): Guard<Record<string, T>> {
  return (value, path) => {
    const entries = Object.entries(asObject(value, path));
    return Object.fromEntries(entries.map(([key, item]) => [key, inner(item, `${path}.${key}`)]));
  };
}

export function shape<S extends Record<string, Guard<unknown>>>(
  fields: S
): Guard<{ [K in keyof S]: Guarded<S[K]> }> {
  return (value, path) => {
    const source = asObject(value, path);
    const checked = Object.entries(fields).map(([key, guard]) => [key, guard(source[key], `${path}.${key}`)]);
    return Object.fromEntries(checked) as { [K in keyof S]: Guarded<S[K]> };
  };
}

function asObject(value: unknown, path: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new WireError(path, 'an object');
  }
  return value as Record<string, unknown>;
}
