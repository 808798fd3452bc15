import * as React from 'react';

/** Name and value of each fact; an empty value is none. */
export function Facts({ facts }: { facts: [string, string][] }): React.JSX.Element {
  return (
    <dl>
      {facts
        .filter(([, value]) => value !== '')
        .map(([name, value]) => (
          <React.Fragment key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </React.Fragment>
        ))}
    </dl>
  );
}
