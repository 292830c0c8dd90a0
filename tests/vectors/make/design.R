# Reads a CSV and builds design matrix, outcome, weights and offset by the column rules of the product:
# numeric as it is; true/false in any case is boolean (term `colTRUE`); text is categorical with levels in byte order.

full <- function(x) ifelse(is.finite(x), sprintf("%.17g", x), NA)

# Rows with a missing cell in one of the columns `used` are left out.
read_table <- function(path, used = character()) {
  frame <- read.csv(path, check.names = FALSE, colClasses = "character", encoding = "UTF-8", na.strings = c("", "NA"))
  if (length(used)) frame <- frame[complete.cases(frame[used]), ]
  for (name in names(frame)) {
    cells <- frame[[name]]
    number <- suppressWarnings(as.numeric(cells))
    if (!anyNA(number)) frame[[name]] <- number
    else if (all(tolower(cells) %in% c("true", "false"))) frame[[name]] <- tolower(cells) == "true"
    else frame[[name]] <- factor(cells, levels = sort(unique(cells), method = "radix"))
  }
  frame
}

used_by <- function(case) c(case$outcome, unlist(case$alice), unlist(case$bob), case$weights, case$offset)

design <- function(case, folder) {
  frame <- read_table(file.path(folder, case$data), used_by(case))
  columns <- c(unlist(case$alice), unlist(case$bob))
  blocks <- list()
  if (isTRUE(case$intercept)) blocks[[1]] <- matrix(1, nrow(frame), 1, dimnames = list(NULL, "(Intercept)"))
  for (name in columns) {
    v <- frame[[name]]
    block <- if (is.factor(v)) {
      others <- levels(v)[-1]
      m <- sapply(others, function(level) as.numeric(v == level))
      colnames(m) <- paste0(name, others)
      m
    } else if (is.logical(v)) matrix(as.numeric(v), ncol = 1, dimnames = list(NULL, paste0(name, "TRUE")))
    else matrix(v, ncol = 1, dimnames = list(NULL, name))
    blocks[[length(blocks) + 1]] <- block
  }
  y <- frame[[case$outcome]]
  if (is.factor(y)) y <- as.numeric(y) - 1
  list(
    x = do.call(cbind, blocks), y = as.numeric(y), n = nrow(frame),
    weights = if (is.null(case$weights)) NULL else frame[[case$weights]],
    offset = if (is.null(case$offset)) NULL else frame[[case$offset]]
  )
}

# The same design by R's own formula machinery, to show that the two agree.
formula_design <- function(case, folder) {
  frame <- read_table(file.path(folder, case$data), used_by(case))
  columns <- c(unlist(case$alice), unlist(case$bob))
  quoted <- paste0("`", columns, "`", collapse = " + ")
  m <- model.matrix(as.formula(paste("~", quoted)), frame)
  colnames(m) <- gsub("`", "", colnames(m))
  if (!isTRUE(case$intercept)) m <- m[, -1, drop = FALSE]
  m
}

# The rows of a design that count, by their weights, and its columns but those that a fit sets aside.
counted <- function(case, d) {
  used <- if (is.null(d$weights)) rep(TRUE, d$n) else d$weights > 0
  list(
    y = d$y[used], n = sum(used),
    w = if (is.null(d$weights)) rep(1, sum(used)) else d$weights[used],
    o = if (is.null(d$offset)) rep(0, sum(used)) else d$offset[used],
    x = d$x[used, !(colnames(d$x) %in% unlist(case$aliased)), drop = FALSE]
  )
}
