import * as React from 'react';

/** Whose part it is; `style/bars.css` gives each a colour and, where colours are near, a pattern. */
export type Owner =
  'mine' | 'kept' | 'changing' | 'parked' | 'handed_back' | 'lent' | 'others' | 'unattributed' | 'free';

export interface IPart {
  owner: Owner;
  /** Per cent of the bar. */
  size: number;
}

/** A bar of parts. It is decoration: the words beside it say the same. */
export function Bar(props: { parts: IPart[]; kind: 'device' | 'row' }): React.JSX.Element {
  return (
    <div className="jp-gpushare-Bar" data-kind={props.kind} aria-hidden="true">
      {props.parts
        .filter(part => part.size > 0)
        .map(part => (
          <i key={part.owner} data-owner={part.owner} style={{ width: `${part.size}%` }} />
        ))}
    </div>
  );
}
