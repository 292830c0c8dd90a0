//! What stands inside a function of a formula: read, written as R writes it, and computed.

use std::fmt;

use super::super::formula::{Parser, Refused, Token};

/// Deepest nesting of parentheses and calls.
const DEEPEST: usize = 64;

/// Most numbers and names in one function: a longer sum would be a tree as deep, which nobody could walk.
const MOST_PARTS: usize = 500;

/// A part of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    /// A number, as it stands there.
    Number(f64),
    /// A column.
    Name(String),
    /// Text in quotes.
    Text(String),
    /// `TRUE` or `FALSE`.
    Truth(bool),
    /// `-a`.
    Minus(Box<Expression>),
    /// `(a)`.
    Inside(Box<Expression>),
    /// `a + b` and the like.
    Operation(Operator, Box<[Expression; 2]>),
    /// `f(a, name = b)`.
    Call(String, Vec<(Option<String>, Expression)>),
}

/// What joins two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Plus,
    Minus,
    Times,
    Over,
    Power,
}

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Single {
    Log,
    Log2,
    Log10,
    Log1p,
    Exp,
    Sqrt,
    Identity,
}

impl Single {
    pub(super) fn named(name: &str) -> Option<Single> {
        Some(match name {
            "log" => Single::Log,
            "log2" => Single::Log2,
            "log10" => Single::Log10,
            "log1p" => Single::Log1p,
            "exp" => Single::Exp,
            "sqrt" => Single::Sqrt,
            "I" => Single::Identity,
            _ => return None,
        })
    }

    fn of(self, x: f64) -> f64 {
        match self {
            Single::Log => x.ln(),
            Single::Log2 => x.log2(),
            Single::Log10 => x.log10(),
            Single::Log1p => x.ln_1p(),
            Single::Exp => x.exp(),
            Single::Sqrt => x.sqrt(),
            Single::Identity => x,
        }
    }
}

impl Expression {
    /// The columns that are used, each once, in order.
    pub(super) fn columns(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.collect(&mut names);
        names
    }

    fn collect<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Expression::Name(name) => {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
            Expression::Number(_) | Expression::Text(_) | Expression::Truth(_) => {}
            Expression::Minus(of) | Expression::Inside(of) => of.collect(names),
            Expression::Operation(_, of) => of.iter().for_each(|of| of.collect(names)),
            Expression::Call(_, arguments) => arguments.iter().for_each(|(_, of)| of.collect(names)),
        }
    }

    /// The value, where each column has the number that `number` gives.
    pub(super) fn value(&self, number: &impl Fn(&str) -> f64) -> f64 {
        match self {
            Expression::Number(value) => *value,
            Expression::Name(name) => number(name),
            Expression::Truth(truth) => f64::from(u8::from(*truth)),
            Expression::Text(_) => f64::NAN,
            Expression::Minus(of) => -of.value(number),
            Expression::Inside(of) => of.value(number),
            Expression::Operation(operator, of) => {
                let (a, b) = (of[0].value(number), of[1].value(number));
                match operator {
                    Operator::Plus => a + b,
                    Operator::Minus => a - b,
                    Operator::Times => a * b,
                    Operator::Over => a / b,
                    // As R has it: the square is a product.
                    Operator::Power if b == 2.0 => a * a,
                    Operator::Power => a.powf(b),
                }
            }
            Expression::Call(name, arguments) => match (Single::named(name), &arguments[..]) {
                (Some(single), [(_, of)]) => single.of(of.value(number)),
                (Some(Single::Log), [(_, of), (_, base)]) => of.value(number).ln() / base.value(number).ln(),
                _ => f64::NAN,
            },
        }
    }

    /// The value of something without columns, such as `-1` or `log(10)`.
    pub(super) fn constant(&self) -> Option<f64> {
        let value = self.columns().is_empty().then(|| self.value(&|_| f64::NAN))?;
        (!value.is_nan()).then_some(value)
    }

    /// What stands in `c(1, 2)`, or a single one.
    fn parts(&self) -> Vec<&Expression> {
        if let Expression::Call(name, arguments) = self
            && name == "c"
        {
            return arguments.iter().map(|(_, argument)| argument).collect();
        }
        vec![self]
    }

    /// The numbers of `c(1, 2)`, or a single one.
    pub(super) fn constants(&self) -> Option<Vec<f64>> {
        self.parts().into_iter().map(Expression::constant).collect()
    }

    /// The texts of `c("a", "b")`, numbers and truth values as R writes them.
    pub(super) fn texts(&self) -> Option<Vec<String>> {
        let text = |of: &Expression| {
            if let Expression::Text(text) = of {
                return Some(text.clone());
            }
            if let Expression::Truth(truth) = of {
                return Some(if *truth { "TRUE" } else { "FALSE" }.to_owned());
            }
            of.constant().map(number)
        };
        self.parts().into_iter().map(text).collect()
    }

    /// Refuses what has no value as a number of each row: texts, and functions that are none of one number.
    pub(super) fn numeric(&self) -> Result<(), String> {
        match self {
            Expression::Number(_) | Expression::Name(_) => Ok(()),
            Expression::Text(text) => Err(format!("the text \"{}\" is no number", super::super::error::shown(text))),
            Expression::Truth(_) => Err("TRUE and FALSE are no numbers".to_owned()),
            Expression::Minus(of) | Expression::Inside(of) => of.numeric(),
            Expression::Operation(_, of) => of.iter().try_for_each(Expression::numeric),
            Expression::Call(name, arguments) => {
                let most = match Single::named(name) {
                    Some(Single::Log) => 2,
                    Some(_) => 1,
                    None => {
                        return Err(format!(
                            "`{}` does not stand inside another function; there, {ARITHMETIC} are understood",
                            super::super::error::shown(name)
                        ));
                    }
                };
                let named =
                    arguments.iter().skip(1).any(|(name, _)| name.as_deref().is_some_and(|name| name != "base"));
                if arguments.is_empty() || arguments.len() > most || arguments[0].0.is_some() || named {
                    let what = if most == 2 { "a number and, if given, its base" } else { "one number" };
                    return Err(format!("`{name}` takes {what}"));
                }
                if let Some((_, base)) = arguments.get(1)
                    && let Some(stated) = base.constant()
                    && (stated <= 0.0 || stated == 1.0)
                {
                    return Err(format!("`{name}` takes a base above 0 and other than 1, and {base} is none"));
                }
                arguments.iter().try_for_each(|(_, argument)| argument.numeric())
            }
        }
    }
}

/// What numbers are made by, for sentences.
const ARITHMETIC: &str = "`+ - * / ^`, numbers, columns, log, log2, log10, log1p, exp, sqrt and I";

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Number(value) => f.write_str(&number(*value)),
            Expression::Name(name) if is_plain(name) => f.write_str(name),
            Expression::Name(name) => write!(f, "`{}`", name.replace('\\', "\\\\").replace('`', "\\`")),
            Expression::Text(text) => write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
            Expression::Truth(truth) => f.write_str(if *truth { "TRUE" } else { "FALSE" }),
            Expression::Minus(of) => write!(f, "-{of}"),
            Expression::Inside(of) => write!(f, "({of})"),
            Expression::Operation(operator, of) => {
                let sign = match operator {
                    Operator::Plus => " + ",
                    Operator::Minus => " - ",
                    Operator::Times => " * ",
                    Operator::Over => "/",
                    Operator::Power => "^",
                };
                write!(f, "{}{sign}{}", of[0], of[1])
            }
            Expression::Call(name, arguments) => {
                write!(f, "{name}(")?;
                for (place, (named, argument)) in arguments.iter().enumerate() {
                    let comma = if place > 0 { ", " } else { "" };
                    match named {
                        Some(named) => write!(f, "{comma}{named} = {argument}")?,
                        None => write!(f, "{comma}{argument}")?,
                    }
                }
                f.write_str(")")
            }
        }
    }
}

/// Whether R writes a name without backticks.
fn is_plain(name: &str) -> bool {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_alphabetic() || c == '.');
    let number = name.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    first && !number && letters.all(|c| c.is_alphanumeric() || matches!(c, '.' | '_'))
}

/// A number with at most 15 digits, the way R writes it: in the shorter of both notations.
pub(super) fn number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = (0..15)
        .map(|digits| format!("{value:.digits$e}"))
        .find(|text| text.parse::<f64>().is_ok_and(|read| format!("{read:.14e}") == format!("{value:.14e}")))
        .unwrap_or_else(|| format!("{value:.14e}"));
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let places = digits.split_once('.').map_or(0, |(_, places)| places.len()) as i32;
    let fixed = format!("{value:.*}", (places - exponent).max(0) as usize);
    let sign = if exponent < 0 { '-' } else { '+' };
    let scientific = format!("{digits}e{sign}{:02}", exponent.abs());
    if fixed.len() <= scientific.len() { fixed } else { scientific }
}

/// Reads the call that begins at the next token.
pub(in super::super) fn call(parser: &mut Parser<'_>) -> Result<Expression, Refused> {
    parser.begin_parts();
    single(parser, 0)
}

/// Reads the arithmetic that begins at the next token.
pub(in super::super) fn arithmetic(parser: &mut Parser<'_>) -> Result<Expression, Refused> {
    parser.begin_parts();
    sum(parser, 0)
}

fn sum(parser: &mut Parser<'_>, depth: usize) -> Result<Expression, Refused> {
    chain(parser, depth, [('+', Operator::Plus), ('-', Operator::Minus)], product)
}

fn product(parser: &mut Parser<'_>, depth: usize) -> Result<Expression, Refused> {
    chain(parser, depth, [('*', Operator::Times), ('/', Operator::Over)], signed)
}

/// Parts that are joined by one of two operators, from left to right.
fn chain(
    parser: &mut Parser<'_>,
    depth: usize,
    operators: [(char, Operator); 2],
    part: fn(&mut Parser<'_>, usize) -> Result<Expression, Refused>,
) -> Result<Expression, Refused> {
    let mut left = part(parser, depth)?;
    while let Some((_, operator)) = operators.into_iter().find(|(sign, _)| parser.take_symbol(*sign)) {
        left = Expression::Operation(operator, Box::new([left, part(parser, depth)?]));
    }
    Ok(left)
}

/// A sign binds less than a power: `-a^2` is `-(a^2)`.
fn signed(parser: &mut Parser<'_>, depth: usize) -> Result<Expression, Refused> {
    if depth > DEEPEST {
        return parser.refused(format!("more than {DEEPEST} levels of parentheses"));
    }
    match parser.take_symbol('-') {
        true => Ok(Expression::Minus(Box::new(signed(parser, depth + 1)?))),
        false => power(parser, depth),
    }
}

fn power(parser: &mut Parser<'_>, depth: usize) -> Result<Expression, Refused> {
    let base = single(parser, depth)?;
    match parser.take_symbol('^') {
        true => Ok(Expression::Operation(Operator::Power, Box::new([base, signed(parser, depth + 1)?]))),
        false => Ok(base),
    }
}

fn single(parser: &mut Parser<'_>, depth: usize) -> Result<Expression, Refused> {
    if depth > DEEPEST {
        return parser.refused(format!("more than {DEEPEST} levels of parentheses"));
    }
    if parser.next_part() > MOST_PARTS {
        return parser.refused(format!("more than {MOST_PARTS} numbers and names in one function"));
    }
    match parser.peek() {
        Token::Number(text) => {
            let Ok(value) = text.parse::<f64>() else {
                return parser.refused(format!("expected a number, found `{}`", super::super::error::shown(&text)));
            };
            parser.take();
            Ok(Expression::Number(value))
        }
        Token::Text(text) => {
            parser.take();
            Ok(Expression::Text(text))
        }
        Token::Symbol('(') => {
            parser.take();
            let inner = sum(parser, depth + 1)?;
            closed(parser)?;
            Ok(Expression::Inside(Box::new(inner)))
        }
        Token::Name(name) if parser.calls() => {
            parser.take();
            parser.take();
            Ok(Expression::Call(name, arguments(parser, depth + 1)?))
        }
        Token::Name(name) => {
            let quoted = parser.is_quoted();
            parser.take();
            Ok(match name.as_str() {
                "TRUE" if !quoted => Expression::Truth(true),
                "FALSE" if !quoted => Expression::Truth(false),
                "Inf" if !quoted => Expression::Number(f64::INFINITY),
                _ => Expression::Name(name),
            })
        }
        found @ (Token::Dot | Token::Symbol(_) | Token::End) => {
            parser.refused(format!("expected a number or the name of a column, found {found}"))
        }
    }
}

fn arguments(parser: &mut Parser<'_>, depth: usize) -> Result<Vec<(Option<String>, Expression)>, Refused> {
    let mut arguments = Vec::new();
    if parser.take_symbol(')') {
        return Ok(arguments);
    }
    loop {
        let named = parser.take_argument_name();
        arguments.push((named, sum(parser, depth)?));
        if !parser.take_symbol(',') {
            break;
        }
    }
    closed(parser)?;
    Ok(arguments)
}

fn closed(parser: &mut Parser<'_>) -> Result<(), Refused> {
    match parser.take_symbol(')') {
        true => Ok(()),
        false => {
            let found = parser.peek();
            parser.refused(format!("expected `)`, found {found}"))
        }
    }
}
